import type { CopyOptions } from '../../store/pools/copy-pool.ts';
import { defineCommand } from '../command.ts';
import { EXIT } from '../failures.ts';
import { formatCount, formatSize, plural } from '../sizes.ts';
import { definedOnly, POOL_OPTIONS, poolOptions, sharedUrl } from '../store-options.ts';

const EXAMPLES = [
  'copy shm:demo shm:larger --size 16g --max-clients 1024',
  'copy shm:demo shm:events --store events,audit',
  'copy tcp://10.0.0.5:7471 file:/var/lib/pool --size 64g',
];

export const copy = defineCommand({
  name: 'copy',
  arguments: '<from> <to>',
  summary: 'Make a pool of other sizes, with the stores of another one',
  details:
    '  Copies stores with their indexes, bounds and records: keys, values, when they expire,\n' +
    '  and what helpers keep. FROM is only read. TO gets its name when all of it is there; a\n' +
    '  copy that is interrupted leaves no pool. Without --size it may hold twice as much.\n' +
    '  Clients of FROM should have ended: what they write meanwhile may be missing.',
  options: {
    ...POOL_OPTIONS,
    store: {
      value: 'NAME,…',
      read: (text: string) => text.split(','),
      about: 'Only these stores of it',
    },
    live: { about: 'Although other clients are attached to FROM' },
  },
  examples: EXAMPLES,
  async run(context, [from, to], options) {
    sharedUrl(from, EXAMPLES[0]);
    sharedUrl(to, EXAMPLES[0]);
    const { copyPool } = await context.enlarging();
    const { live, store: stores } = options;
    const { signal } = context;
    const wanted: CopyOptions = {
      ...poolOptions(options),
      ...definedOnly({ stores }),
      live,
      signal,
    };
    const report = await copyPool(from, to, wanted);
    for (const { name, index, records } of report.stores) {
      await context.stdout.line(`${name} (${index}): ${plural(records, 'record')}`);
    }
    const clients = formatCount(report.maxClients);
    await context.stdout.line(
      `copied ${plural(report.stores.length, 'store')} of ${from} to ${to} ` +
        `(up to ${formatSize(report.sizeMax)}, ${clients} clients)`,
    );
    return EXIT.ok;
  },
});
