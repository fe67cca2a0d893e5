import { hasCode, StepwellError } from '../../errors.ts';
import { capacityOf } from '../../fabrics/shared/refused-memory.ts';
import { INDEX_NAMES } from '../../indexes/kinds.ts';
import type { IndexChoice, OpenOptions } from '../../store/api.ts';
import { isRemote, parseRemote } from '../../store/remote/address.ts';
import { defineCommand } from '../command.ts';
import type { Context, Library } from '../context.ts';
import { EXIT, UsageError } from '../failures.ts';
import { formatSize, parseCount } from '../sizes.ts';
import {
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
  'create file:/var/tmp/cities.pool --store cities --set associativity=7,groups=64',
];

/** `span=64,fanout=32,sync=true`; the library says which names and values there are. */
function parseParameters(text: string): Record<string, number | boolean> {
  const read = parseCount(0);
  return Object.fromEntries(
    text.split(',').map((pair) => {
      const [, name, value] = /^(\w+)=(.*)$/.exec(pair.trim()) ?? [];
      if (name === undefined) throw new UsageError(`'${pair}' is not of the form NAME=VALUE`);
      if (value === 'true' || value === 'false') return [name, value === 'true'];
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
    '  With --store, --index or --set a store is made too; a pool that is there gets one more.\n' +
    '  A pool has up to 64 stores, each with an index of its own.\n' +
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
      about: `Of the store (default: race): ${INDEX_NAMES.join(', ')}`,
    },
    set: {
      value: 'NAME=N,…',
      read: parseParameters,
      about: 'Parameters of the index: numbers, true or false',
    },
  },
  examples: EXAMPLES,
  async run(context, [url], options) {
    sharedUrl(url, EXAMPLES[0]);
    const library = await context.library();
    const store = storeOptions(url, options);
    const poolIsNew = await make(library, url, { ...poolOptions(options), ...store });
    const { path, sizeMax } = await library.inspect(url, { client: 'stepwell create' });
    const place = path === '' ? '' : `${path}, `;
    const what = poolIsNew ? url : `store ${nameOf(url, store)} in ${url}`;
    await context.stdout.line(`created ${what} (${place}up to ${formatSize(sizeMax)})`);
    warnOfSmallPlace(context, path, sizeMax);
    return EXIT.ok;
  },
});

/** Whether the pool is new. */
async function make(library: Library, url: string, options: OpenOptions): Promise<boolean> {
  try {
    return await library.create(url, options);
  } catch (error) {
    if (hasCode(error, 'SW_STORE_EXISTS')) throw explained(error, 'another name makes another one');
    if (!hasCode(error, 'SW_POOL_EXISTS')) throw error;
    const sizes = options.size ?? options.regionSize ?? options.maxClients;
    const another = '--store NAME makes another store in it';
    throw explained(error, sizes === undefined ? another : 'its sizes stay');
  }
}

function explained({ code, message }: StepwellError, how: string): StepwellError {
  return new StepwellError(code, `${message}; ${how}`);
}

function nameOf(url: string, { store }: OpenOptions): string {
  return store ?? (isRemote(url) ? parseRemote(url).store : undefined) ?? 'default';
}

interface StoreWishes {
  store: string | undefined;
  index: string | undefined;
  set: Record<string, number | boolean> | undefined;
}

/** The store that was asked for, if one was. */
function storeOptions(url: string, { store, index, set }: StoreWishes): OpenOptions {
  const named = storeNamed('create', store);
  if (index === undefined && set === undefined) return named;
  // The library refuses what is no index and no parameter of it.
  const choice = { kind: index ?? 'race', ...set } as IndexChoice;
  return { ...named, store: nameOf(url, named), index: choice };
}

function warnOfSmallPlace({ stderr }: Context, path: string, sizeMax: number): void {
  const total = path === '' ? undefined : capacityOf(path)?.total;
  if (total === undefined || total >= sizeMax) return;
  stderr.writeNow(`note: its file system holds ${formatSize(total)}; the pool is full before\n`);
}
