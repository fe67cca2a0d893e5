import { defineCommand } from '../command.ts';
import { EXIT } from '../failures.ts';
import { sharedUrl } from '../store-options.ts';

const EXAMPLES = ['destroy shm:demo', 'destroy file:/var/tmp/cities.pool --force'];

export const destroy = defineCommand({
  name: 'destroy',
  arguments: '<url>',
  summary: 'Remove a pool with all that it holds, without asking',
  options: {
    force: { about: 'Even while living clients are attached' },
  },
  examples: EXAMPLES,
  async run(context, [url], { force }) {
    sharedUrl(url, EXAMPLES[0]);
    const library = await context.library();
    await library.destroy(url, { force });
    await context.stdout.line(`destroyed ${url}`);
    return EXIT.ok;
  },
});
