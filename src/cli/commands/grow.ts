import { defineCommand } from '../command.ts';
import { EXIT, UsageError } from '../failures.ts';
import { formatSize } from '../sizes.ts';
import { POOL_OPTIONS, sharedUrl } from '../store-options.ts';

const EXAMPLES = ['grow shm:demo --size 16g', 'grow file:/var/tmp/cities.pool --size 64g'];

export const grow = defineCommand({
  name: 'grow',
  arguments: '<url>',
  summary: 'Let a pool hold more, while its clients go on',
  details:
    '  --size is the new maximum, rounded up to whole regions: a pool has at most 1024. Clients\n' +
    '  that are attached use it at once. So do those of a memory node that lends the file. The\n' +
    '  number of clients and of stores cannot be raised so: `stepwell copy` makes another pool.',
  options: { size: POOL_OPTIONS.size },
  examples: EXAMPLES,
  async run(context, [url], { size }) {
    sharedUrl(url, EXAMPLES[0]);
    if (size === undefined) throw new UsageError('--size says how much it may hold', EXAMPLES[0]);
    const library = await context.enlarging();
    const { before, sizeMax } = await library.grow(url, { size });
    await context.stdout.line(
      `${url} may hold ${formatSize(sizeMax)} now (before: ${formatSize(before)})`,
    );
    return EXIT.ok;
  },
});
