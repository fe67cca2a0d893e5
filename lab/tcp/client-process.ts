/** One client process: runs the orders that it receives, and reports operations per second. */
import { createClient } from 'redis';
import type { IndexName } from '../../src/store/api.ts';
import { open } from '../../src/store/open.ts';
import { KeyGenerator, Prng, ValueGenerator } from '../workloads/index.ts';
import { Chooser, Insertions, isOfScans, type MixName } from './mixes.ts';

const SCAN_LENGTH = 100;
/** A sorted set of all keys in Redis. Members with equal scores are in the order of their bytes. */
const SORTED = 'keys in order';

export interface ClientTask {
  target: { kind: 'stepwell'; url: string; index: IndexName } | { kind: 'redis'; port: number };
  records: number;
  place: { client: number; clients: number };
}

export type ClientOrder =
  | { kind: 'load' }
  | { kind: 'mix'; mix: MixName; ms: number; width: number }
  /**
   * Runs the mix until the client has used `ms` of processor time, so that its code is compiled.
   */
  | { kind: 'warm'; mix: MixName; ms: number; width: number }
  | { kind: 'many'; size: number; ms: number };

interface Target {
  get(key: string): Promise<unknown>;
  set(key: string, value: string): Promise<unknown>;
  /** Adds a record that scans must find. */
  add(key: string, value: string): Promise<unknown>;
  /** Records from this key on, and their keys alone. */
  scan(key: string): Promise<unknown>;
  scanKeys(key: string): Promise<unknown>;
  getMany(keys: string[]): Promise<unknown>;
}

const task = JSON.parse(process.argv[2]) as ClientTask;
const keys = new KeyGenerator();
const values = new ValueGenerator();
const prng = Prng.fromSeed(17 + task.place.client);
// One for all rounds, so that each insertion is of a new record.
const insertions = new Insertions(task.records, task.place);
const textOf = (record: number, version = 0) =>
  values
    .buffer(record, version)
    .toString('latin1')
    .replaceAll(/[^ -~]/g, '.');
process.on('disconnect', () => process.exit());

async function connectTarget(): Promise<Target> {
  if (task.target.kind === 'redis') {
    const client = createClient({ socket: { host: '127.0.0.1', port: task.target.port } });
    client.on('error', () => {});
    await client.connect();
    const LIMIT = { offset: 0, count: SCAN_LENGTH };
    const scanKeys = (key: string) => client.zRangeByLex(SORTED, `[${key}`, '+', { LIMIT });
    return {
      get: (key) => client.get(key),
      set: (key, value) => client.set(key, value),
      add: (key, value) =>
        Promise.all([client.set(key, value), client.zAdd(SORTED, { score: 0, value: key })]),
      // As YCSB's own client of Redis, but with one call for all records instead of one for each.
      scan: async (key) => {
        const names = await scanKeys(key);
        return names.length === 0 ? [] : client.mGet(names);
      },
      scanKeys,
      getMany: (names) => client.mGet(names),
    };
  }
  const { url, index } = task.target;
  const store = await open(url, { store: index, index, client: 'bench' });
  return {
    get: (key) => store.get(key),
    set: (key, value) => store.set(key, value),
    add: (key, value) => store.set(key, value),
    scan: (key) => store.scan({ gte: key, limit: SCAN_LENGTH }).nextMany(SCAN_LENGTH),
    scanKeys: (key) => store.keys({ gte: key, limit: SCAN_LENGTH }).nextMany(SCAN_LENGTH),
    getMany: (names) => store.getMany(names),
  };
}

const target = await connectTarget();

async function load(): Promise<number> {
  const { client, clients } = task.place;
  const lane = async (first: number) => {
    for (let record = first; record < task.records; record += 64 * clients) {
      await target.add(keys.string(record), textOf(record));
    }
  };
  await Promise.all(Array.from({ length: 64 }, (_, i) => lane(client + clients * i)));
  return task.records / clients;
}

/** On a busy machine, a warm-up ends at the latest after this many times its processor time. */
const PATIENCE = 10;

async function warm(name: MixName, ms: number, width: number): Promise<number> {
  const start = performance.now();
  const before = process.cpuUsage();
  return await mix(name, width, () => {
    const { user, system } = process.cpuUsage(before);
    return user + system < 1000 * ms && performance.now() - start < PATIENCE * ms;
  });
}

async function timed(name: MixName, ms: number, width: number): Promise<number> {
  const start = performance.now();
  return await mix(name, width, () => performance.now() - start < ms);
}

async function mix(name: MixName, width: number, goesOn: () => boolean): Promise<number> {
  const chooser = new Chooser(name, task.records, insertions, prng);
  const start = performance.now();
  let done = 0;
  const lane = async () => {
    while (goesOn()) {
      await act(chooser, isOfScans(name));
      done++;
    }
  };
  await Promise.all(Array.from({ length: width }, lane));
  return (1000 * done) / (performance.now() - start);
}

async function act(chooser: Chooser, scans: boolean): Promise<void> {
  const action = chooser.action();
  if (action === 'insert') {
    const record = insertions.next();
    const add = scans ? target.add : target.set;
    await add(keys.string(record), textOf(record));
    return;
  }
  const record = chooser.record();
  const key = keys.string(record);
  if (action === 'scan') await target.scan(key);
  if (action === 'keys') await target.scanKeys(key);
  if (action === 'read' || action === 'modify') await target.get(key);
  if (action === 'update' || action === 'modify') await target.set(key, textOf(record, 1));
}

/** Keys per second, with `size` of them in each call, one call after another. */
async function many(size: number, ms: number): Promise<number> {
  const start = performance.now();
  let done = 0;
  while (performance.now() - start < ms) {
    const names = Array.from({ length: size }, () => keys.string(prng.below(task.records)));
    if (size === 1) await target.get(names[0]);
    else await target.getMany(names);
    done += size;
  }
  return (1000 * done) / (performance.now() - start);
}

process.on('message', async (order: ClientOrder) => {
  if (order.kind === 'load') process.send?.(await load());
  else if (order.kind === 'many') process.send?.(await many(order.size, order.ms));
  else if (order.kind === 'warm') process.send?.(await warm(order.mix, order.ms, order.width));
  else process.send?.(await timed(order.mix, order.ms, order.width));
});
process.send?.('ready');
