import { buffer } from 'node:stream/consumers';
import { defineCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { EXIT, UsageError } from '../failures.ts';
import { STORE_OPTION, sharedUrl, storeNamed } from '../store-options.ts';
import { BINARY_OPTIONS, type WordForm, wordForm } from '../words.ts';

const EXAMPLES = [
  'set shm:demo greeting hello',
  'set shm:demo picture < picture.png',
  'set shm:demo lock "$HOSTNAME" --insert',
];

export const set = defineCommand({
  name: 'set',
  arguments: '<url> <key> [value]',
  summary: 'Store a value under a key',
  details:
    '  The value comes from standard input, byte for byte, when it is left out or `-`.\n' +
    '  Makes the pool and the store when they do not exist, the store on the index race: for\n' +
    '  another one, `create URL --store NAME --index INDEX` first.',
  options: {
    ...STORE_OPTION,
    ...BINARY_OPTIONS,
    insert: { about: 'Only if the key is absent; exits with 1 otherwise' },
    update: { about: 'Only if the key is present; exits with 1 otherwise' },
  },
  examples: EXAMPLES,
  async run(context, [url, keyWord, word], options) {
    sharedUrl(url, EXAMPLES[0]);
    const form = wordForm(options);
    const key = form.read(keyWord);
    if (options.insert && options.update) {
      throw new UsageError('--insert and --update exclude each other', EXAMPLES[2]);
    }
    const value = await readValue(word, form, context);
    const { open } = await context.library();
    // An update can only succeed in a store that is there, so it need not make one.
    const create = !options.update;
    const store = await open(url, { ...storeNamed('set', options.store), create });
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
    throw new UsageError('no value: give one, or send it to standard input', EXAMPLES[0]);
  }
  return await buffer(context.stdin);
}
