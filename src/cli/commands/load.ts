import { defineCommand } from '../command.ts';
import { EXIT } from '../failures.ts';
import { formatOfFile, LOAD_FORMATS, parseLoadFormat, readRows } from '../formats/index.ts';
import { openInput } from '../formats/input.ts';
import { Loader } from '../loader.ts';
import { formatCount, formatDuration, parseCount, plural } from '../sizes.ts';
import { STORE_OPTION, sharedUrl, storeNamed } from '../store-options.ts';

const EXAMPLES = [
  'load shm:demo users.csv --key email',
  'load shm:demo cities.jsonl.gz --key country,name --value population',
  'load shm:demo - --format jsonl < dump.jsonl',
  'load shm:demo events.csv --store events --key time --sorted',
];

export const load = defineCommand({
  name: 'load',
  arguments: '<url> <file>',
  summary: 'Put the records of a JSONL, JSON, CSV or TSV file',
  details:
    '  The format follows from the file name; .gz files are unpacked; `-` is standard input.\n' +
    '  What `dump` wrote is restored as it was. A record replaces the value of an equal key.\n' +
    '  With --sorted the keys must ascend in the order of their bytes (`LC_ALL=C sort`), and\n' +
    '  the store be empty: it is built whole, much faster, and seen when it is complete. The\n' +
    '  file is read into memory first. A store that is made for it gets the index chime, else\n' +
    '  race; for another one, `create URL --store NAME --index INDEX` first.',
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
    sorted: { about: 'Keys ascend and the store is empty: all records at once, or none (chime)' },
    'skip-errors': { about: 'Leave bad records out and count them' },
    ...STORE_OPTION,
  },
  examples: EXAMPLES,
  async run(context, [url, file], options) {
    sharedUrl(url, EXAMPLES[0]);
    const format = options.format ?? formatOfFile(file);
    const skipErrors = options['skip-errors'];
    // The file first: a name that is not there must not leave a new pool behind.
    const input = await openInput(file, context.stdin);
    try {
      const { open } = await context.library();
      const { sorted } = options;
      // Of a store that is there, its index stays what it is.
      const made = { create: true, ...(sorted ? { index: 'chime' as const } : {}) };
      const store = await open(url, { ...storeNamed('load', options.store), ...made });
      try {
        const recogniseDump = options.key === undefined && options.value === undefined;
        const source = readRows(format, input.bytes, { recogniseDump });
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
