import type { AsyncStore, Key } from '../../store/api.ts';
import { prefixRange } from '../../store/keys.ts';
import type { AsyncScan, RangeBounds, ScanOptions } from '../../store/ordered-api.ts';
import { defineCommand } from '../command.ts';
import { breathe, type Context, throwIfInterrupted } from '../context.ts';
import { EXIT, UsageError } from '../failures.ts';
import { type DumpWriter, dumpWriter } from '../formats/dump-writer.ts';
import { DUMP_FORMATS, parseDumpFormat } from '../formats/index.ts';
import { parseCount } from '../sizes.ts';
import { definedOnly, STORE_OPTION, sharedUrl, storeNamed } from '../store-options.ts';
import { BINARY_OPTIONS, type WordForm, wordForm } from '../words.ts';

const PAGE = 128;
const EXAMPLES = [
  'scan shm:demo --prefix user: --limit 10',
  'scan shm:demo --reverse --limit 1 --keys',
  'scan shm:demo --gte 2026-01-01 --lt 2026-02 --count',
  'scan shm:demo --prefix 00ff --hex',
];

export const scan = defineCommand({
  name: 'scan',
  arguments: '<url>',
  summary: 'Write a range of records in the order of their keys (index chime)',
  details:
    '  Keys are in the order of their bytes. A line per record, as `dump` writes them but for\n' +
    '  the version, so that `load` takes them. Each key that is there throughout comes once.',
  options: {
    prefix: { value: 'KEY', about: 'Only keys that begin so' },
    gte: { value: 'KEY', about: 'From this key on' },
    gt: { value: 'KEY', about: 'From behind this key on' },
    lte: { value: 'KEY', about: 'Up to this key' },
    lt: { value: 'KEY', about: 'Up to before this key' },
    reverse: { about: 'From the highest key down' },
    limit: { value: 'N', read: parseCount(0), about: 'So many records at most' },
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
  examples: EXAMPLES,
  async run(context, [url], options) {
    sharedUrl(url, EXAMPLES[0]);
    const { reverse, limit, keys, count, format = 'jsonl' } = options;
    const form = wordForm(options);
    if (count && (keys || reverse || limit !== undefined)) {
      throw new UsageError('--count goes with a range only', EXAMPLES[2]);
    }
    const bounds = boundsOf(options, form);
    const range: ScanOptions = { ...bounds, reverse, ...definedOnly({ limit }) };
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

type BoundWords = { [name in 'prefix' | keyof RangeBounds]: string | undefined };

function boundsOf({ prefix, gte, gt, lte, lt }: BoundWords, form: WordForm): RangeBounds {
  const words = Object.entries(definedOnly({ gte, gt, lte, lt }));
  const bounds = Object.fromEntries(words.map(([name, word]) => [name, form.read(word)]));
  if (prefix === undefined) return bounds;
  if (Object.keys(bounds).length === 0) return prefixRange(form.read(prefix));
  throw new UsageError('--prefix is a range of its own', EXAMPLES[0]);
}

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
