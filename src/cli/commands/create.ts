import { StepwellError } from '../../errors.ts';
import { capacityOf } from '../../fabrics/shared/refused-memory.ts';
import type { IndexName, OpenOptions, PoolOptions } from '../../store/api.ts';
import { isRemote, parseRemote } from '../../store/remote/address.ts';
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
  'create shm:demo --store users --index chime',
  'create shm:demo --store events --index chime --set span=64,neighbourhood=8',
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
  summary: 'Make a new pool, or a store in it, or in a pool that is there',
  details:
    '  Opening a pool also makes it, so this is only needed to choose sizes and parameters.\n' +
    '  With --store, --index or parameters a store is made too; a pool that is there gets one\n' +
    '  more. A pool has up to 64 stores, each with an index of its own.\n' +
    '  Memory is taken from the system as it is used, not when the pool is made. Without --size\n' +
    '  a pool holds up to 8 GiB, or as much as its file system when that is smaller.\n' +
    '  The index of a store is race unless you say; chime keeps its keys in order, for scans.\n' +
    "  Its parameters (--set) are in the index's README; a name that it does not have is\n" +
    '  answered with those that it has.',
  options: {
    ...POOL_OPTIONS,
    ...STORE_OPTION,
    index: {
      value: 'INDEX',
      about: 'Of the store: race (default), sephash, shard, chime, hopscotch, hstore',
    },
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
    const store = storeOptions(url, options);
    const pool = poolOptions(options);
    const mayBeThere = store !== undefined && Object.keys(pool).length === 0;
    const made = await makePool(library, url, pool, mayBeThere);
    if (store !== undefined) await createStore(library, url, store, made);
    const { path, sizeMax } = await library.inspect(url, { client: 'stepwell create' });
    const place = path === '' ? '' : `${path}, `;
    const what = made ? url : `store ${nameOf(url, store)} in ${url}`;
    await context.stdout.line(`created ${what} (${place}up to ${formatSize(sizeMax)})`);
    const total = path === '' ? undefined : capacityOf(path)?.total;
    if (total !== undefined && total < sizeMax) {
      const size = formatSize(total);
      context.stderr.writeNow(`note: its file system holds ${size}; the pool is full before\n`);
    }
    return EXIT.ok;
  },
});

/** Whether it is new; a pool that is there will do when only a store is wanted. */
async function makePool(
  library: Library,
  url: string,
  options: PoolOptions,
  mayBeThere: boolean,
): Promise<boolean> {
  try {
    await library.create(url, options);
    return true;
  } catch (error) {
    if (!(error instanceof StepwellError && error.code === 'SW_POOL_EXISTS')) throw error;
    if (mayBeThere) return false;
    const sizes = Object.keys(options).length > 0;
    const how = sizes ? 'its sizes stay' : '--store NAME makes another store in it';
    throw new StepwellError(error.code, `${error.message}; ${how}`, { cause: error });
  }
}

function nameOf(url: string, options: OpenOptions | undefined): string {
  return options?.store ?? (isRemote(url) ? parseRemote(url).store : undefined) ?? 'default';
}

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
function storeOptions(url: string, options: StoreWishes): OpenOptions | undefined {
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
  const kind = definedOnly({ index: options.index as IndexName | undefined });
  const wanted = { ...storeNamed('create', store), ...kind };
  if (Object.keys(parameters).length > 0) return { ...wanted, [index]: parameters };
  const named = store !== undefined || (isRemote(url) && parseRemote(url).store !== undefined);
  return named || options.index !== undefined ? wanted : undefined;
}

/**
 * Takes a new pool away again when its store cannot be made: all or nothing. One that was there
 * before stays as it is.
 */
async function createStore(
  library: Library,
  url: string,
  options: OpenOptions,
  poolIsNew: boolean,
): Promise<void> {
  if (!poolIsNew) await refuseExisting(library, url, options);
  try {
    await (await library.open(url, { ...options, create: true })).close();
  } catch (error) {
    if (poolIsNew) await library.destroy(placeOf(url));
    throw error;
  }
}

/** A pool goes as a whole, so its URL without the store. */
function placeOf(url: string): string {
  return isRemote(url) ? parseRemote(url).url : url;
}

async function refuseExisting(library: Library, url: string, options: OpenOptions): Promise<void> {
  const name = nameOf(url, options);
  const { stores } = await library.inspect(url, { client: 'stepwell create' });
  const existing = stores.find((store) => store.name === name && store.state === 'ready');
  if (existing === undefined) return;
  const why = `store ${name} is in ${url} already, with the index ${existing.index}`;
  throw new StepwellError('SW_STORE_EXISTS', `${why}; --store NAME makes another one`);
}
