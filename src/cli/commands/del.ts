import { defineCommand } from '../command.ts';
import { EXIT } from '../failures.ts';
import { STORE_OPTION, sharedUrl, storeNamed } from '../store-options.ts';
import { BINARY_OPTIONS, wordForm } from '../words.ts';

const EXAMPLES = ['del shm:demo greeting', 'del shm:demo user:1 user:2 user:3'];

export const del = defineCommand({
  name: 'del',
  arguments: '<url> <...keys>',
  summary: 'Remove keys and print how many were there',
  options: { ...STORE_OPTION, ...BINARY_OPTIONS },
  examples: EXAMPLES,
  async run(context, [url, ...words], options) {
    sharedUrl(url, EXAMPLES[0]);
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
