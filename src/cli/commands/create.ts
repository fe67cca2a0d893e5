import type { IndexName, OpenOptions } from '../../store/api.ts';
import { defineCommand } from '../command.ts';
import type { Library } from '../context.ts';
import { EXIT, UsageError } from '../failures.ts';
import { formatSize, parseCount } from '../sizes.ts';
import {
  definedOnly,
  POOL_OPTIONS,
  poolOptions,
  STORE_OPTION,
  sharedUrl,
  storeNamed,
} from '../store-options.ts';

const EXAMPLES = [
  'create shm:demo --size 4g',
  'create shm:demo --store users --index chime --set span=64,neighbourhood=8',
  'create file:/var/tmp/cities.pool --store cities --associativity 7 --groups 64',
];

/** `span=64,fanout=32`; the library says which names and values there are. */
function parseParameters(text: string): Record<string, number> {
  const read = parseCount(0);
  return Object.fromEntries(
    text.split(',').map((pair) => {
      const [, name, value] = /^(\w+)=(.*)$/.exec(pair.trim()) ?? [];
      if (name === undefined) throw new UsageError(`'${pair}' is not of the form NAME=N`);
      return [name, read(value)];
    }),
  );
}

export const create = defineCommand({
  name: 'create',
  arguments: '<url>',
  summary: 'Make a new pool, and a store in it when asked for',
  details:
    '  Opening a pool also makes it, so this is only needed to choose sizes and parameters.\n' +
    '  Memory is taken from the system as it is used, not when the pool is made.\n' +
    '  The index of a store is race unless you say; chime keeps its keys in order, for scans.\n' +
    "  Its parameters (--set) are in the index's README; a name that it does not have is\n" +
    '  answered with those that it has.',
  options: {
    ...POOL_OPTIONS,
    ...STORE_OPTION,
    index: { value: 'INDEX', about: 'Of the store: race (default), sephash, shard, chime …' },
    set: {
      value: 'NAME=N,…',
      read: parseParameters,
      about: 'Parameters of the index',
    },
    associativity: { value: 'K', read: parseCount(1, 64), about: 'race: slots in a bucket' },
    groups: { value: 'N', read: parseCount(2, 65_536), about: 'race: bucket groups in a subtable' },
    'initial-depth': {
      value: 'D',
      read: parseCount(0, 24),
      about: 'race: directory bits at first',
    },
    'max-depth': { value: 'D', read: parseCount(0, 24), about: 'race: directory bits to reserve' },
  },
  examples: EXAMPLES,
  async run(context, [url], options) {
    sharedUrl(url, EXAMPLES[0]);
    const library = await context.library();
    const store = storeOptions(options);
    await library.create(url, poolOptions(options));
    if (store !== undefined) await createStore(library, url, store);
    const { path, sizeMax } = await library.inspect(url, { client: 'stepwell create' });
    const place = path === '' ? '' : `${path}, `;
    await context.stdout.line(`created ${url} (${place}up to ${formatSize(sizeMax)})`);
    return EXIT.ok;
  },
});

interface StoreWishes {
  store: string | undefined;
  index: string | undefined;
  set: Record<string, number> | undefined;
  associativity: number | undefined;
  groups: number | undefined;
  'initial-depth': number | undefined;
  'max-depth': number | undefined;
}

/** How to make the store that was asked for; undefined when none was. */
function storeOptions(options: StoreWishes): OpenOptions | undefined {
  const { store, set = {} } = options;
  const race = definedOnly({
    associativity: options.associativity,
    groups: options.groups,
    initialDepth: options['initial-depth'],
    maxDepth: options['max-depth'],
  });
  const index = options.index ?? 'race';
  const [given] = Object.keys(race);
  if (given !== undefined && index !== 'race') {
    throw new UsageError(
      `${given} is a parameter of race, not of ${index}; see --set`,
      EXAMPLES[1],
    );
  }
  const parameters = { ...race, ...set };
  const named = definedOnly({ index: options.index as IndexName | undefined });
  const wanted = { ...storeNamed('create', store), ...named };
  if (Object.keys(parameters).length > 0) return { ...wanted, [index]: parameters };
  return store === undefined && options.index === undefined ? undefined : wanted;
}

/** Takes the new pool away again when its store cannot be made: all or nothing. */
async function createStore(library: Library, url: string, options: OpenOptions): Promise<void> {
  try {
    await (await library.open(url, { ...options, create: true })).close();
  } catch (error) {
    await library.destroy(url);
    throw error;
  }
}
