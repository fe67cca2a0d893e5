import { open } from 'node:fs/promises';
import { pipeline, type Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { hasCode } from '../../errors.ts';
import type { AsyncStore, IndexName, Key, OpenOptions, Value } from '../../store/api.ts';
import type { StoreOptions } from '../../store/store-in-pool.ts';
import { formatCount } from '../../store/watching/units.ts';
import { defineCommand } from '../command.ts';
import { breathe, type Context, throwIfInterrupted } from '../context.ts';
import { EXIT, InputError, UsageError } from '../failures.ts';
import { entryOfDump, isDumpRecord, type LoadEntry, storeOfDump } from '../formats/dump.ts';
import {
  formatOfFile,
  LOAD_FORMATS,
  parseLoadFormat,
  type Row,
  type RowSource,
  readRows,
} from '../formats/rows.ts';
import { isWellFormed } from '../formats/utf8.ts';
import { formatDuration, parseCount, plural } from '../sizes.ts';
import { STORE_OPTION, storeNamed } from '../store-options.ts';
import { Progress } from '../terminal/progress.ts';
import { printable } from '../terminal/style.ts';

export const load = defineCommand({
  name: 'load',
  arguments: '<url> <file>',
  summary: 'Put the records of a JSONL, JSON, CSV or TSV file',
  details:
    '  The format follows from the file name; .gz files are unpacked; `-` is standard input.\n' +
    '  What `dump` wrote is restored as it was. In JSONL it also says which index and bound the\n' +
    '  store has, if it must be made. A record replaces the value of an equal key.\n' +
    '  With --sorted the keys must ascend in the order of their bytes (`LC_ALL=C sort`), and\n' +
    '  the store be empty: it is built whole, much faster, and seen when it is complete. The\n' +
    '  file is read into memory first. A store that is made for it has the index chime. Other\n' +
    '  new stores have the index of --index, else that of the dump, else race.',
  options: {
    format: {
      value: 'FORMAT',
      read: parseLoadFormat,
      about: `One of ${LOAD_FORMATS.join(', ')}`,
    },
    key: {
      value: 'COLUMNS',
      read: (text: string) => text.split(','),
      about: 'Key column, or several with commas, joined by `:` (default: key, id or the first)',
    },
    value: { value: 'COLUMN', about: 'Value column (default: the whole record as JSON)' },
    batch: { value: 'N', read: parseCount(1, 65_536), about: 'Records per write (default: 32)' },
    index: { value: 'INDEX', about: 'Of a new store, whatever a dump says (default: race)' },
    sorted: { about: 'Keys ascend and the store is empty: all records at once, or none (chime)' },
    'skip-errors': { about: 'Leave bad records out and count them' },
    ...STORE_OPTION,
  },
  examples: [
    'load shm:demo users.csv --key email',
    'load shm:demo cities.jsonl.gz --key country,name --value population',
    'load shm:demo - --format jsonl < dump.jsonl',
    'load shm:demo events.csv --store events --key time --sorted',
  ],
  async run(context, [url, file], options) {
    const format = options.format ?? formatOfFile(file);
    const skipErrors = options['skip-errors'];
    // Opened first: a file that does not exist must not leave a new pool behind.
    const input = await openInput(file, context.stdin);
    try {
      const { sorted } = options;
      const recogniseDump = options.key === undefined && options.value === undefined;
      const source = readRows(format, input.bytes, { recogniseDump });
      const described = await takeStoreLine(source, input.name);
      const index = indexOf(described, options);
      const asked: OpenOptions = { ...storeNamed('load', options.store), create: true };
      if (index !== undefined) asked.index = index;
      const store = await openStore(context, url, input, described, asked);
      try {
        const loader = new Loader(context, store, input, {
          batch: options.batch ?? 32,
          skipErrors,
          sorted,
        });
        const { records, skipped, seconds } = await loader.load(source, options);
        await context.stdout.line(
          `loaded ${plural(records, 'record')} in ${formatDuration(seconds)} ` +
            `(${formatCount(records / Math.max(seconds, 0.001))} records/s)` +
            `${skipped === 0 ? '' : `, skipped ${plural(skipped, 'bad record')}`}; ` +
            `the store holds ${formatCount(await store.size())}`,
        );
        return EXIT.ok;
      } finally {
        await store.close();
      }
    } finally {
      input.close();
    }
  },
});

/** Takes the first line off the rows if it describes the store of a dump. */
async function takeStoreLine(source: RowSource, name: string): Promise<StoreOptions | undefined> {
  const rest = source.rows[Symbol.asyncIterator]();
  const first = await rest.next();
  let described: StoreOptions | undefined;
  try {
    if (!first.done) described = storeOfDump(first.value.record);
  } catch (error) {
    throw error instanceof InputError ? inFirstLine(name, error.message) : error;
  }
  source.rows = (async function* () {
    if (!first.done && described === undefined) yield first.value;
    yield* { [Symbol.asyncIterator]: () => rest };
  })();
  return described;
}

function inFirstLine(name: string, message: string): InputError {
  return new InputError(`${name}, the store in line 1: ${message}`);
}

/** The index that the options ask for; undefined if the dump, or the default, decides. */
function indexOf(
  described: StoreOptions | undefined,
  { index, sorted }: { index: string | undefined; sorted: boolean },
): IndexName | undefined {
  if (!sorted || index !== undefined) return index as IndexName | undefined;
  if ((described?.maxRecords ?? described?.maxBytes) !== undefined) {
    throw new UsageError(
      'the dump is of a bounded store, which --sorted cannot fill: leave it out',
    );
  }
  const { index: choice } = described ?? {};
  const kind = typeof choice === 'object' ? choice.kind : choice;
  return kind === 'chime' ? undefined : 'chime';
}

/** A store that is there keeps its index and bound, unless an option asks for another index. */
async function openStore(
  context: Context,
  url: string,
  input: Input,
  described: StoreOptions | undefined,
  asked: OpenOptions,
): Promise<AsyncStore> {
  const { open } = await context.library();
  if (described === undefined) return await open(url, asked);
  try {
    return await open(url, { ...described, ...asked });
  } catch (error) {
    if (hasCode(error, 'SW_INVALID_ARGUMENT') && asked.index === undefined) {
      throw inFirstLine(input.name, `${error.message}; --index INDEX chooses another index`);
    }
    if (!hasCode(error, 'SW_STORE_MISMATCH')) throw error;
    const store = await open(url, asked);
    context.stderr.writeNow(`note: ${printable(error.message)}; it stays as it is\n`);
    return store;
  }
}

/** How many bad records are reported one by one; the others are only counted. */
const COMPLAINTS = 10;
const BATCHES_PER_BREATH = 64;

interface LoadResult {
  records: number;
  skipped: number;
  seconds: number;
}

interface LoadOptions {
  /** Records per write. */
  batch: number;
  skipErrors: boolean;
  sorted: boolean;
}

/** Moves rows into a store in batches, keeping count. */
class Loader {
  readonly #context: Context;
  readonly #store: AsyncStore;
  readonly #input: Input;
  readonly #options: LoadOptions;
  readonly #progress: Progress;
  #batch: LoadEntry[] = [];
  #batches = 0;
  #records = 0;
  #skipped = 0;

  constructor(context: Context, store: AsyncStore, input: Input, options: LoadOptions) {
    this.#context = context;
    this.#store = store;
    this.#input = input;
    this.#options = options;
    this.#progress = new Progress(context, 'loading', 'bytes');
  }

  async load(
    source: RowSource,
    columns: { key?: readonly string[] | undefined; value?: string | undefined },
  ): Promise<LoadResult> {
    const firstColumn = source.firstColumn ?? (() => undefined);
    const mapping: Mapping = { key: columns.key, value: columns.value, firstColumn };
    const { batch, sorted } = this.#options;
    try {
      for await (const row of source.rows) {
        this.#take(row, mapping, source.unit);
        if (this.#batch.length % batch !== 0 || this.#batch.length === 0) continue;
        // Sorted records are kept until all have been read.
        if (sorted) await this.#advance(source, this.#batch.length);
        else await this.#flush(source);
      }
      if (sorted) await this.#storeSorted();
      else await this.#flush(source);
    } catch (error) {
      if (sorted) this.#complain('nothing was stored');
      else await this.#tellWhatIsStored(error);
      throw error;
    } finally {
      this.#progress.clear();
    }
    const seconds = this.#progress.seconds;
    return { records: this.#records, skipped: this.#skipped, seconds };
  }

  #take(row: Row, mapping: Mapping, unit: string): void {
    try {
      const entry = entryOf(row, mapping);
      const cannotExpire = this.#options.sorted && entry.length > 2;
      if (cannotExpire) throw new InputError('a record that expires does not go with --sorted');
      this.#batch.push(entry);
    } catch (error) {
      if (!(error instanceof InputError)) throw error;
      const message = `${this.#input.name}, ${unit} ${row.at}: ${error.message}`;
      if (!this.#options.skipErrors) throw new InputError(message);
      this.#skipped++;
      if (this.#skipped <= COMPLAINTS) this.#complain(`skipped: ${message}`);
    }
  }

  async #flush(source: RowSource): Promise<void> {
    await this.#storeGathered();
    await this.#advance(source, this.#records);
  }

  async #storeSorted(): Promise<void> {
    this.#records = await this.#store.loadSorted(this.#batch.map(([key, value]) => [key, value]));
  }

  /** Stores in the order of the file, so the last record of a key stays. */
  async #storeGathered(): Promise<void> {
    const batch = this.#batch;
    this.#batch = [];
    let plain: [Key, Value][] = [];
    const storePlain = async () => {
      await this.#store.setMany(plain);
      this.#records += plain.length;
      plain = [];
    };
    for (const [key, value, expires] of batch) {
      if (expires === undefined) {
        plain.push([key, value]);
        continue;
      }
      await storePlain();
      await this.#store.set(key, value, expires);
      this.#records++;
    }
    await storePlain();
  }

  async #advance({ share }: RowSource, records: number): Promise<void> {
    const { total } = this.#input;
    const done = share === undefined ? this.#input.done() : share() * (total ?? 0);
    this.#progress.update(done, total, records);
    if (++this.#batches % BATCHES_PER_BREATH === 0) await breathe();
    throwIfInterrupted(this.#context.signal, 'interrupted');
  }

  /** Stores the good records before a bad one: a user who repairs the file relies on that. */
  async #tellWhatIsStored(error: unknown): Promise<void> {
    if (error instanceof InputError) await this.#storeGathered();
    this.#complain(`${plural(this.#records, 'record')} stored before the end`);
  }

  #complain(message: string): void {
    this.#progress.clear();
    this.#context.stderr.writeNow(`${printable(message)}\n`);
  }
}

const KEY_LIMIT = 65_535;
const VALUE_LIMIT = 64 * 1024 * 1024;

interface Mapping {
  /** Columns whose texts, joined by `:`, are the key. Default: see `defaultKey`. */
  key: readonly string[] | undefined;
  /** The value's column. Default: the whole record as JSON. */
  value: string | undefined;
  firstColumn: () => string | undefined;
}

/** The record of a row. Throws an InputError if something is wrong with it. */
function entryOf(row: Row, mapping: Mapping): LoadEntry {
  if (row.problem !== undefined) throw new InputError(row.problem);
  const entry = mapRecord(row, mapping);
  const [key, value] = entry;
  checkContent('key', key, KEY_LIMIT);
  checkContent('value', value, VALUE_LIMIT);
  return entry;
}

function mapRecord({ record, text }: Row, mapping: Mapping): LoadEntry {
  if (mapping.key === undefined && mapping.value === undefined && isDumpRecord(record)) {
    return entryOfDump(record);
  }
  if (typeof record !== 'object' || record === null || Array.isArray(record)) {
    throw new InputError('the record is not an object with named fields');
  }
  const fields = record as Record<string, unknown>;
  const columns = mapping.key ?? defaultKey(fields, mapping.firstColumn());
  const key = columns.map((column) => keyText(fields, column)).join(':');
  if (mapping.value === undefined) return [key, text ?? JSON.stringify(record)];
  return [key, valueText(fields, mapping.value)];
}

function defaultKey(fields: Record<string, unknown>, first: string | undefined): string[] {
  if (first !== undefined) return [first];
  const column = ['key', 'id'].find((name) => Object.hasOwn(fields, name));
  if (column === undefined) {
    throw new InputError("the record has no field 'key' or 'id'; say which with --key COLUMN");
  }
  return [column];
}

function fieldOf(fields: Record<string, unknown>, column: string): unknown {
  if (Object.hasOwn(fields, column)) return fields[column];
  const names = Object.keys(fields).slice(0, 8).join(', ');
  throw new InputError(`the record has no field '${column}' (it has: ${names})`);
}

function keyText(fields: Record<string, unknown>, column: string): string {
  const content = fieldOf(fields, column);
  if (typeof content === 'string') return content;
  if (typeof content === 'boolean') return String(content);
  if (typeof content === 'number') {
    // Larger integers may have lost digits: two different keys could have become one.
    if (Number.isInteger(content) && !Number.isSafeInteger(content)) {
      throw new InputError(`field '${column}' is a number too large to be exact; make it a string`);
    }
    return String(content);
  }
  throw new InputError(`field '${column}' is no text, number or boolean, so it cannot be a key`);
}

function valueText(fields: Record<string, unknown>, column: string): string {
  const content = fieldOf(fields, column);
  return typeof content === 'string' ? content : JSON.stringify(content);
}

function checkContent(what: 'key' | 'value', content: Key | Value, limit: number): void {
  if (typeof content === 'string' && !isWellFormed(content)) {
    throw new InputError(`the ${what} holds half a surrogate pair, which has no UTF-8 form`);
  }
  // Cheap bound first: a string takes at most three bytes per unit.
  if (content.length * 3 <= limit) return;
  const length = Buffer.byteLength(content);
  if (length > limit) {
    throw new InputError(`the ${what} has ${length} bytes, more than the ${limit} that fit`);
  }
}

/** Bytes to load, and how far they have been read. */
interface Input {
  name: string;
  bytes: Readable;
  /** Size on disk, if it is a file. */
  total: number | undefined;
  /** Bytes of the file read so far. */
  done(): number;
  close(): void;
}

const READ_SIZE = 256 * 1024;

/** Opens a file, which is unpacked if its name ends in `.gz`; `-` is standard input. */
async function openInput(file: string, stdin: Readable): Promise<Input> {
  if (file === '-') return standardInput(stdin);
  const handle = await open(file);
  const status = await handle.stat();
  const raw = handle.createReadStream({ highWaterMark: READ_SIZE });
  const bytes = file.endsWith('.gz') ? unpacked(raw) : raw;
  return {
    name: file,
    bytes,
    total: status.isFile() ? status.size : undefined,
    done: () => raw.bytesRead,
    close: () => {
      bytes.destroy();
      raw.destroy();
    },
  };
}

function standardInput(stdin: Readable): Input {
  let done = 0;
  stdin.on('data', (chunk: Uint8Array) => {
    done += chunk.length;
  });
  // The listener above must not start the flow before there is a reader.
  stdin.pause();
  return {
    name: 'standard input',
    bytes: stdin,
    total: undefined,
    done: () => done,
    close: () => stdin.destroy(),
  };
}

function unpacked(raw: Readable): Readable {
  const gunzip = createGunzip({ chunkSize: READ_SIZE });
  // Passes errors of either stream to the reader of the unpacked one.
  pipeline(raw, gunzip, () => {});
  return gunzip;
}
