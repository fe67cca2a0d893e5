import { defineCommand } from '../command.ts';
import { EXIT } from '../failures.ts';
import { formatSize } from '../sizes.ts';
import { sharedUrl } from '../store-options.ts';

const EXAMPLES = ['drop shm:demo users', 'drop shm:demo users --force'];

export const drop = defineCommand({
  name: 'drop',
  arguments: '<url> <store>',
  summary: 'Remove a store from a pool with all that it holds, without asking',
  details: '  The memory of the store is free for the other stores of the pool.',
  options: {
    force: { about: 'Even while living clients have the store open' },
  },
  examples: EXAMPLES,
  async run(context, [url, store], { force }) {
    sharedUrl(url, EXAMPLES[0]);
    const library = await context.library();
    const { bytes, heldBy } = await library.dropStore(url, store, { force });
    const size = formatSize(bytes);
    const memory =
      heldBy.length === 0
        ? `${size} are free`
        : `${size} come free when these have let go of it: ${heldBy.join(', ')}`;
    await context.stdout.line(`dropped ${store} of ${url}: ${memory}`);
    return EXIT.ok;
  },
});
