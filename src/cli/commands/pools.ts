import { hasCode, StepwellError } from '../../errors.ts';
import { capacityOf } from '../../fabrics/shared/refused-memory.ts';
import { INDEX_NAMES } from '../../indexes/kinds.ts';
import type { IndexChoice, OpenOptions } from '../../store/api.ts';
import { isRemote, parseRemote } from '../../store/remote/address.ts';
import { formatCount, formatSize } from '../../store/watching/units.ts';
import { defineCommand } from '../command.ts';
import { type Context, type Library, printReport } from '../context.ts';
import { EXIT, UsageError } from '../failures.ts';
import { parseCount, plural } from '../sizes.ts';
import { POOL_OPTIONS, poolOptions, STORE_OPTION, storeNamed } from '../store-options.ts';
import { table } from '../terminal/table.ts';

export const pools = defineCommand({
  name: 'pools',
  arguments: '',
  summary: 'List the shm: pools of this machine: size, clients and stores',
  options: {
    json: { about: 'Print the list as JSON' },
  },
  examples: ['pools', 'pools --json'],
  async run(context, _words, { json }) {
    const found = (await context.listPools())();
    const rows = found.map((pool) => {
      const { url, bytes, sizeMax, clients, clientsMax, stores, problem } = pool;
      if (problem !== undefined) return [url, formatSize(bytes), '', '', problem];
      const attached = `${clients} of ${clientsMax}`;
      return [url, formatSize(bytes), formatSize(sizeMax), attached, stores.join(', ')];
    });
    await printReport(context, found, json, (_, style) => {
      return rows.length === 0
        ? 'no pools'
        : table('POOL | TAKES: | AT MOST: | CLIENTS: | STORES', rows, style);
    });
    return EXIT.ok;
  },
});

/** Parses `span=64,fanout=32,sync=true`. The library checks names and values. */
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
  examples: [
    'create shm:demo --size 4g',
    'create shm:demo --store users --index chime',
    'create shm:demo --store events --index chime --set span=64,neighbourhood=8',
    'create file:/var/tmp/cities.pool --store cities --set associativity=7,groups=64',
  ],
  async run(context, [url], options) {
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

interface StoreRequest {
  store: string | undefined;
  index: string | undefined;
  set: Record<string, number | boolean> | undefined;
}

/** The options of the store to create, if any were given. */
function storeOptions(url: string, { store, index, set }: StoreRequest): OpenOptions {
  const named = storeNamed('create', store);
  if (index === undefined && set === undefined) return named;
  // The library checks the index and its parameters.
  const choice = { kind: index ?? 'race', ...set } as IndexChoice;
  return { ...named, store: nameOf(url, named), index: choice };
}

function warnOfSmallPlace({ stderr }: Context, path: string, sizeMax: number): void {
  const total = path === '' ? undefined : capacityOf(path)?.total;
  if (total === undefined || total >= sizeMax) return;
  stderr.writeNow(`note: its file system holds ${formatSize(total)}; the pool is full before\n`);
}

export const grow = defineCommand({
  name: 'grow',
  arguments: '<url>',
  summary: 'Let a pool hold more, while its clients go on',
  details:
    '  --size is the new maximum, rounded up to whole regions: a pool has at most 1024. Clients\n' +
    '  that are attached use it at once. So do those of a memory node that lends the file. The\n' +
    '  number of clients and of stores cannot be raised so: `stepwell copy` makes another pool.',
  options: { size: POOL_OPTIONS.size },
  examples: ['grow shm:demo --size 16g', 'grow file:/var/tmp/cities.pool --size 64g'],
  async run(context, [url], { size }) {
    if (size === undefined) throw new UsageError('--size says how much it may hold');
    const library = await context.enlarging();
    const { before, sizeMax } = await library.grow(url, { size });
    await context.stdout.line(
      `${url} may hold ${formatSize(sizeMax)} now (before: ${formatSize(before)})`,
    );
    return EXIT.ok;
  },
});

export const copy = defineCommand({
  name: 'copy',
  arguments: '<from> <to>',
  summary: 'Make a pool of other sizes, with the stores of another one',
  details:
    '  Copies stores with their indexes, bounds and records: keys, values, when they expire,\n' +
    '  and what helpers keep. FROM is only read. TO gets its name when all of it is there; a\n' +
    '  copy that is interrupted leaves no pool. Without --size it may hold twice as much.\n' +
    '  Clients of FROM should have ended: what they write meanwhile may be missing.',
  options: {
    ...POOL_OPTIONS,
    store: {
      value: 'NAME,…',
      read: (text: string) => text.split(','),
      about: 'Only these stores of it',
    },
    live: { about: 'Although other clients are attached to FROM' },
  },
  examples: [
    'copy shm:demo shm:larger --size 16g --max-clients 1024',
    'copy shm:demo shm:events --store events,audit',
    'copy tcp://10.0.0.5:7471 file:/var/lib/pool --size 64g',
  ],
  async run(context, [from, to], options) {
    const { copyPool } = await context.enlarging();
    const { live, store: stores } = options;
    const { signal } = context;
    const report = await copyPool(from, to, { ...poolOptions(options), stores, live, signal });
    for (const { name, index, records } of report.stores) {
      await context.stdout.line(`${name} (${index}): ${plural(records, 'record')}`);
    }
    const clients = formatCount(report.maxClients);
    await context.stdout.line(
      `copied ${plural(report.stores.length, 'store')} of ${from} to ${to} ` +
        `(up to ${formatSize(report.sizeMax)}, ${clients} clients)`,
    );
    return EXIT.ok;
  },
});

export const drop = defineCommand({
  name: 'drop',
  arguments: '<url> <store>',
  summary: 'Remove a store from a pool with all that it holds, without asking',
  details: '  The memory of the store is free for the other stores of the pool.',
  options: {
    force: { about: 'Even while living clients have the store open' },
  },
  examples: ['drop shm:demo users', 'drop shm:demo users --force'],
  async run(context, [url, store], { force }) {
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

export const destroy = defineCommand({
  name: 'destroy',
  arguments: '<url>',
  summary: 'Remove a pool with all that it holds, without asking',
  options: {
    force: { about: 'Even while living clients are attached' },
  },
  examples: ['destroy shm:demo', 'destroy file:/var/tmp/cities.pool --force'],
  async run(context, [url], { force }) {
    const library = await context.library();
    await library.destroy(url, { force });
    await context.stdout.line(`destroyed ${url}`);
    return EXIT.ok;
  },
});

export const stores = defineCommand({
  name: 'stores',
  arguments: '<url>',
  summary: 'List the stores of a pool: index, records and memory',
  options: {
    json: { about: 'Print the list as JSON' },
  },
  examples: ['stores shm:demo', 'stores shm:demo --json'],
  async run(context, [url], { json }) {
    const library = await context.library();
    const report = await library.inspect(url, { client: 'stepwell stores' });
    const found = report.stores.map(({ name, index, state, records, memory }) => {
      const bytes = memory.records + memory.subtables + memory.directory;
      return { name, index, state, records, bytes };
    });
    const rows = found.map(({ name, index, state, records, bytes }) => {
      return [name, index, state, formatCount(records), formatSize(bytes)];
    });
    await printReport(context, found, json, (_, style) => {
      return rows.length === 0
        ? 'no stores'
        : table('NAME | INDEX | STATE | RECORDS: | MEMORY:', rows, style);
    });
    return EXIT.ok;
  },
});
