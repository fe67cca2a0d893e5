import { defineCommand } from '../command.ts';
import { EXIT } from '../failures.ts';
import { STORE_OPTION, sharedUrl, storeNamed } from '../store-options.ts';

const EXAMPLES = ['get shm:demo greeting', 'get shm:demo picture > picture.png'];

export const get = defineCommand({
  name: 'get',
  arguments: '<url> <key>',
  summary: 'Write the value of a key to standard output, byte for byte',
  options: STORE_OPTION,
  examples: EXAMPLES,
  async run(context, [url, key], { store: name }) {
    sharedUrl(url, EXAMPLES[0]);
    const { open } = await context.library();
    const options = { ...storeNamed('get', name), create: false, values: 'bytes' } as const;
    const store = await open<Uint8Array>(url, options);
    try {
      const value = await store.get(key);
      if (value === undefined) {
        context.stderr.writeNow('not found\n');
        return EXIT.negative;
      }
      await context.stdout.write(value);
      // A person wants the prompt on its own line; a program wants the value and nothing else.
      if (context.stdout.isTTY) await context.stdout.write('\n');
      return EXIT.ok;
    } finally {
      await store.close();
    }
  },
});
