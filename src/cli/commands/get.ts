import { defineCommand } from '../command.ts';
import { EXIT } from '../failures.ts';
import { STORE_OPTION, sharedUrl, storeNamed } from '../store-options.ts';
import { BINARY_OPTIONS, wordForm } from '../words.ts';

const EXAMPLES = [
  'get shm:demo greeting',
  'get shm:demo picture > picture.png',
  'get shm:demo ff00 --hex',
];

export const get = defineCommand({
  name: 'get',
  arguments: '<url> <key>',
  summary: 'Write the value of a key to standard output, byte for byte',
  options: { ...STORE_OPTION, ...BINARY_OPTIONS },
  examples: EXAMPLES,
  async run(context, [url, word], options) {
    sharedUrl(url, EXAMPLES[0]);
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
      // A person wants the prompt on its own line; a program wants the value and nothing else.
      if (context.stdout.isTTY) await context.stdout.write('\n');
      return EXIT.ok;
    } finally {
      await store.close();
    }
  },
});
