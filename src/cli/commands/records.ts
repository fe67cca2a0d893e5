import { buffer } from 'node:stream/consumers';
import type { AsyncStore, Key } from '../../store/api.ts';
import type { AsyncScan, RangeBounds, ScanOptions } from '../../store/ordered-api.ts';
import { defineCommand } from '../command.ts';
import { breathe, type Context, throwIfInterrupted } from '../context.ts';
import { EXIT, UsageError } from '../failures.ts';
import { type DumpWriter, dumpWriter } from '../formats/dump.ts';
import { DUMP_FORMATS, parseDumpFormat } from '../formats/rows.ts';
import { parseCount } from '../sizes.ts';
import { STORE_OPTION, storeNamed } from '../store-options.ts';
import { BINARY_OPTIONS, type WordForm, wordForm } from '../words.ts';

export const get = defineCommand({
  name: 'get',
  arguments: '<url> <key>',
  summary: 'Write the value of a key to standard output, byte for byte',
  options: { ...STORE_OPTION, ...BINARY_OPTIONS },
  examples: [
    'get shm:demo greeting',
    'get shm:demo picture > picture.png',
    'get shm:demo ff00 --hex',
  ],
  async run(context, [url, word], options) {
    const form = wordForm(options);
    const key = form.read(word);
    const { open } = await context.library();
    const named = storeNamed('get', options.store);
    const store = await open<Uint8Array>(url, { ...named, create: false, values: 'bytes' });
    try {
      const value = await store.get(key);
      if (value === undefined) {
        context.stderr.writeNow('not found\n');
        return EXIT.negative;
      }
      if (form.write !== undefined) {
        await context.stdout.line(form.write(value));
        return EXIT.ok;
      }
      await context.stdout.write(value);
      // A person wants the prompt on its own line; a program wants only the value.
      if (context.stdout.isTTY) await context.stdout.write('\n');
      return EXIT.ok;
    } finally {
      await store.close();
    }
  },
});

const SET_ONCE = 'set shm:demo lock "$HOSTNAME" --insert';

export const set = defineCommand({
  name: 'set',
  arguments: '<url> <key> [value]',
  summary: 'Store a value under a key',
  details:
    '  The value comes from standard input, byte for byte, when it is left out or `-`.\n' +
    '  Creates the pool and the store if they do not exist, the store with the index race. For\n' +
    '  another index, run `create URL --store NAME --index INDEX` first.',
  options: {
    ...STORE_OPTION,
    ...BINARY_OPTIONS,
    insert: { about: 'Only if the key is absent; exits with 1 otherwise' },
    update: { about: 'Only if the key is present; exits with 1 otherwise' },
  },
  examples: ['set shm:demo greeting hello', 'set shm:demo picture < picture.png', SET_ONCE],
  async run(context, [url, keyWord, word], options) {
    const form = wordForm(options);
    const key = form.read(keyWord);
    if (options.insert && options.update) {
      throw new UsageError('--insert and --update exclude each other', SET_ONCE);
    }
    const value = await readValue(word, form, context);
    const { open } = await context.library();
    // An update succeeds only in an existing store, so it does not create one.
    const create = !options.update;
    const named = storeNamed('set', options.store);
    const store = await open(url, { ...named, create, values: 'auto' });
    try {
      const when = options.insert ? 'absent' : options.update ? 'present' : 'always';
      const { written } = await store.write(key, value, { when });
      if (!written) context.stderr.writeNow(options.insert ? 'key exists\n' : 'not found\n');
      return written ? EXIT.ok : EXIT.negative;
    } finally {
      await store.close();
    }
  },
});

async function readValue(
  word: string | undefined,
  form: WordForm,
  context: Context,
): Promise<string | Uint8Array> {
  if (word !== undefined && word !== '-') return form.read(word);
  if (word === undefined && context.stdin.isTTY) {
    throw new UsageError('no value: give one, or send it to standard input');
  }
  return await buffer(context.stdin);
}

export const del = defineCommand({
  name: 'del',
  arguments: '<url> <...keys>',
  summary: 'Remove keys and print how many were there',
  options: { ...STORE_OPTION, ...BINARY_OPTIONS },
  examples: ['del shm:demo greeting', 'del shm:demo user:1 user:2 user:3'],
  async run(context, [url, ...words], options) {
    const form = wordForm(options);
    const keys = words.map((word) => form.read(word));
    const { open } = await context.library();
    const store = await open(url, { ...storeNamed('del', options.store), create: false });
    try {
      await context.stdout.line(String(await store.deleteMany(keys)));
      return EXIT.ok;
    } finally {
      await store.close();
    }
  },
});

const PAGE = 128;
const COUNT_RANGE = 'scan shm:demo --gte 2026-01-01 --lt 2026-02 --count';

export const scan = defineCommand({
  name: 'scan',
  arguments: '<url>',
  summary: 'Write a range of records in the order of their keys (index chime)',
  details:
    '  Keys come in byte order. Writes one line per record, as `dump` does but without the\n' +
    '  version, so `load` reads it. A key present for the whole scan appears exactly once.\n' +
    '  Indexes without order have only --prefix, and read the whole store for it.',
  options: {
    prefix: { value: 'KEY', about: 'Only keys with this prefix' },
    gte: { value: 'KEY', about: 'From this key on' },
    gt: { value: 'KEY', about: 'After this key' },
    lte: { value: 'KEY', about: 'Up to this key' },
    lt: { value: 'KEY', about: 'Before this key' },
    reverse: { about: 'From the highest key down' },
    limit: { value: 'N', read: parseCount(0), about: 'At most this many records' },
    keys: { about: 'Only the keys, one on each line' },
    count: { about: 'Only how many there are' },
    format: {
      value: 'FORMAT',
      read: parseDumpFormat,
      about: `One of ${DUMP_FORMATS.join(', ')} (default: jsonl)`,
    },
    ...STORE_OPTION,
    ...BINARY_OPTIONS,
  },
  examples: [
    'scan shm:demo --prefix user: --limit 10',
    'scan shm:demo --reverse --limit 1 --keys',
    COUNT_RANGE,
    'scan shm:demo --prefix 00ff --hex',
  ],
  async run(context, [url], options) {
    const { reverse, limit, keys, count, format = 'jsonl' } = options;
    const form = wordForm(options);
    if (count && (keys || reverse || limit !== undefined)) {
      throw new UsageError('--count goes with a range only', COUNT_RANGE);
    }
    const bounds = boundsOf(options, form);
    const range: ScanOptions = { ...bounds, reverse, limit };
    const { open } = await context.library();
    const store = await open(url, { ...storeNamed('scan', options.store), create: false });
    try {
      if (count) await context.stdout.line(String(await store.count(bounds)));
      else if (keys) await writeKeys(context, store, range, form);
      else await writeRecords(context, store, range, dumpWriter(format, form.notation));
      return EXIT.ok;
    } finally {
      await store.close();
    }
  },
});

type BoundWords = Record<keyof RangeBounds, string | undefined>;

function boundsOf({ prefix, gte, gt, lte, lt }: BoundWords, form: WordForm): RangeBounds {
  const bounds: RangeBounds = {};
  for (const [name, word] of Object.entries({ gte, gt, lte, lt })) {
    if (word !== undefined) bounds[name as keyof RangeBounds] = form.read(word);
  }
  if (prefix === undefined) return bounds;
  if (Object.keys(bounds).length === 0) return { prefix: form.read(prefix) };
  throw new UsageError('--prefix is a range of its own');
}

export const keys = defineCommand({
  name: 'keys',
  arguments: '<url>',
  summary: 'Write the keys of a store, one on each line',
  details:
    '  Works with every index: in byte order if it has one, else in no particular order. A line\n' +
    '  break in a key looks like the end of it: use --hex or --base64 for such keys.',
  options: {
    prefix: { value: 'KEY', about: 'Only keys with this prefix' },
    limit: { value: 'N', read: parseCount(0), about: 'At most this many keys' },
    ...STORE_OPTION,
    ...BINARY_OPTIONS,
  },
  examples: ['keys shm:demo', 'keys shm:demo --prefix user: --limit 10'],
  async run(context, [url], options) {
    const form = wordForm(options);
    const prefix = form.read(options.prefix ?? '');
    const { open } = await context.library();
    const store = await open(url, { ...storeNamed('keys', options.store), create: false });
    try {
      await writeKeys(context, store, { prefix, limit: options.limit }, form);
      return EXIT.ok;
    } finally {
      await store.close();
    }
  },
});

async function writeRecords(
  context: Context,
  store: AsyncStore,
  range: ScanOptions,
  writer: DumpWriter,
): Promise<void> {
  const records = store.scan(range);
  if (writer.head !== '') await context.stdout.write(writer.head);
  await writeAll(context, records, ([key, value]) => Buffer.from(writer.line({ key, value })));
}

async function writeKeys(
  context: Context,
  store: AsyncStore,
  range: ScanOptions,
  { write }: WordForm,
): Promise<void> {
  const line = (key: Key) => {
    const bytes = Buffer.from(key as string);
    return write ? Buffer.from(`${write(bytes)}\n`) : Buffer.concat([bytes, Buffer.from('\n')]);
  };
  await writeAll(context, store.keys(range), line);
}

async function writeAll<T>(
  { stdout, signal }: Context,
  scanned: AsyncScan<T>,
  line: (item: T) => Uint8Array,
): Promise<void> {
  for (;;) {
    const items = await scanned.nextMany(PAGE);
    if (items.length === 0) return;
    await stdout.write(Buffer.concat(items.map(line)));
    await breathe();
    throwIfInterrupted(signal, 'interrupted: the scan is not complete');
  }
}
