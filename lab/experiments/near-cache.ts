/** Near reads beside lru-cache, lmdb and Redis, with an oracle of stale reads. See `--help`. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { open as openLmdb } from 'lmdb';
import { LRUCache } from 'lru-cache';
import { createClient } from 'redis';
import { startWorker } from '../../src/fabrics/start-worker.ts';
import type { IndexName } from '../../src/store/api.ts';
import { destroySync, openSync } from '../../src/store/open.ts';
import { startRedisServer } from '../bench/redis-server.ts';
import { Cleanup } from '../support/cleanup.ts';
import { monotonic } from '../support/clock.ts';
import { parseOptions } from '../support/options.ts';
import { median } from '../support/statistics.ts';
import { table } from '../support/text.ts';
import { Prng, ScrambledZipf, YCSB_ZIPF } from '../workloads/index.ts';
import { documentOf, keyOf, type WriterTask } from './near-writer.ts';

const SPEC = {
  records: { kind: 'integer', fallback: 100_000, minimum: 1000, help: 'in each store' },
  reads: { kind: 'integer', fallback: 300_000, minimum: 1000, help: 'of each round' },
  rounds: { kind: 'integer', fallback: 5, minimum: 1, help: 'of which the median counts' },
  index: { kind: 'text', fallback: 'race', help: 'of the store' },
  changed: { kind: 'text', fallback: '0,1,10', help: 'per cent of the keys changed a second' },
  redis: { kind: 'flag', help: 'also node-redis with client-side caching' },
} as const;

interface Versioned {
  readonly version: number;
}

interface Reader {
  name: string;
  get(key: string): Versioned | string | undefined;
}

interface Measured {
  nanoseconds: number;
  stale: number;
}

const text = (i: number) => `${i} ${'t'.repeat(100)}`.slice(0, 100);

/** Times reads of keys in an order, and counts values older than a write that had ended before. */
function measure(
  reader: Reader,
  keys: readonly string[],
  order: Int32Array,
  versions: Int32Array | undefined,
  isBuilt: boolean,
): Measured {
  let stale = 0;
  const start = monotonic();
  for (const i of order) {
    const least = versions === undefined ? 0 : Atomics.load(versions, i);
    const value = reader.get(isBuilt ? keyOf(i) : keys[i]);
    if (value === undefined) throw new Error(`${reader.name} lost ${keyOf(i)}`);
    if (versions !== undefined && (value as Versioned).version < least) stale++;
  }
  return { nanoseconds: Number(monotonic() - start) / order.length, stale };
}

/** The orders in which keys are read. */
function ordersOf(records: number, reads: number): Record<string, Int32Array> {
  const prng = Prng.fromSeed(27);
  const zipf = new ScrambledZipf(records, prng, YCSB_ZIPF);
  return {
    uniform: Int32Array.from({ length: reads }, () => prng.below(records)),
    'Zipf 0.99': Int32Array.from({ length: reads }, () => zipf.next()),
  };
}

/** The readers of documents and of texts, all filled. */
function readersOf(cleanup: Cleanup, url: string, records: number, index: IndexName) {
  cleanup.add(() => destroySync(url, { force: true }));
  const pool = { size: 2 ** 30, index };
  const near = openSync<Versioned>(url, { ...pool, values: 'json', nearCache: records });
  const plain = openSync<Versioned>(url, { values: 'json' });
  const texts = openSync(url, { ...pool, store: 'texts', values: 'utf8', nearCache: records });
  for (const store of [near, plain, texts]) cleanup.add(() => store.close());
  const path = mkdtempSync(join('/dev/shm', 'stepwell-near-'));
  cleanup.add(() => rmSync(path, { recursive: true, force: true }));
  const lmdb = (name: string, cache: boolean, encoding: 'json' | 'string') =>
    openLmdb<Versioned | string, string>({ path: join(path, name), encoding, cache });
  const [db, dbCached] = [lmdb('plain', false, 'json'), lmdb('cached', true, 'json')];
  const dbTexts = lmdb('texts', false, 'string');
  for (const one of [db, dbCached, dbTexts]) cleanup.add(() => one.close());
  const lru = new LRUCache<string, Versioned>({ max: records });
  for (const one of [db, dbCached, dbTexts]) {
    one.transactionSync(() => {
      for (let i = 0; i < records; i++)
        one.putSync(keyOf(i), one === dbTexts ? text(i) : documentOf(i, 0));
    });
  }
  for (let i = 0; i < records; i++) {
    near.set(keyOf(i), documentOf(i, 0));
    texts.set(keyOf(i), text(i));
    lru.set(keyOf(i), documentOf(i, 0));
  }
  const documents: Reader[] = [
    { name: 'near', get: (key) => near.get(key) },
    { name: 'without', get: (key) => plain.get(key) },
    { name: 'lru-cache', get: (key) => lru.get(key) },
    { name: 'lmdb', get: (key) => db.get(key) },
    { name: 'lmdb, cache: true', get: (key) => dbCached.get(key) },
  ];
  const strings: Reader[] = [
    { name: 'near', get: (key) => texts.get(key) },
    { name: 'lmdb', get: (key) => dbTexts.get(key) },
  ];
  return { documents, strings, stats: () => near.stats().near };
}

/** Runs something while a writer changes keys; returns what it returned. */
async function whileWriting<T>(
  task: Omit<WriterTask, 'versions' | 'stop'>,
  run: (versions: Int32Array | undefined) => T | Promise<T>,
): Promise<T> {
  if (task.perSecond === 0) return run(undefined);
  const versions = new Int32Array(new SharedArrayBuffer(4 * task.keys));
  const stop = new Int32Array(new SharedArrayBuffer(4));
  const writer = startWorker(import.meta.url, 'near-writer', { ...task, versions, stop });
  try {
    return await run(versions);
  } finally {
    Atomics.store(stop, 0, 1);
    await once(writer, 'exit');
  }
}

/** Reads of node-redis, whose cache is told of changes by messages. */
async function measureRedis(cleanup: Cleanup, records: number, order: Int32Array, share: number) {
  const { port, stop } = await startRedisServer();
  cleanup.add(stop);
  const clientSideCache = { ttl: 0, maxEntries: records, evictPolicy: 'LRU' } as const;
  const client = createClient({ RESP: 3, socket: { port }, clientSideCache });
  client.on('error', () => {});
  await client.connect();
  cleanup.add(() => client.close());
  for (let i = 0; i < records; i++) await client.set(keyOf(i), JSON.stringify(documentOf(i, 0)));
  for (const i of order) await client.get(keyOf(i));
  const task = { url: '', redis: port, keys: records, perSecond: (share * records) / 100 };
  return whileWriting(task, async (versions) => {
    let stale = 0;
    const start = monotonic();
    for (const i of order) {
      const least = versions === undefined ? 0 : Atomics.load(versions, i);
      const { version } = JSON.parse((await client.get(keyOf(i))) ?? '{}') as Versioned;
      if (version < least) stale++;
    }
    return { nanoseconds: Number(monotonic() - start) / order.length, stale };
  });
}

export async function main(argv: string[]): Promise<void> {
  const options = parseOptions('stepwell-lab near-cache', SPEC, argv);
  const { records, reads, rounds } = options;
  const cleanup = new Cleanup();
  const url = `shm:near-${process.pid}`;
  const rows: string[][] = [];
  try {
    const keys = Array.from({ length: records }, (_, i) => keyOf(i));
    const readers = readersOf(cleanup, url, records, options.index as IndexName);
    const add = (what: string, changed: number, name: string, all: Measured[]) => {
      const nanoseconds = median(all.map((one) => one.nanoseconds)).toFixed(0);
      const stale = all.reduce((sum, one) => sum + one.stale, 0);
      rows.push([what, `${changed} %`, name, nanoseconds, changed === 0 ? '' : String(stale)]);
    };
    const round = (reader: Reader, order: Int32Array, versions?: Int32Array, isBuilt = false) =>
      Array.from({ length: rounds + 2 }, () =>
        measure(reader, keys, order, versions, isBuilt),
      ).slice(2);
    for (const changed of options.changed.split(',').map(Number)) {
      for (const [name, order] of Object.entries(ordersOf(records, reads))) {
        for (const reader of readers.documents) {
          const isShared = reader.name === 'near' || reader.name === 'without';
          if (changed > 0 && !isShared) continue;
          const task = { url, redis: 0, keys: records, perSecond: (changed * records) / 100 };
          const all = await whileWriting(task, (versions) => round(reader, order, versions));
          add(`documents, ${name}`, changed, reader.name, all);
          if (changed > 0) continue;
          add(`… keys built`, 0, reader.name, round(reader, order, undefined, true));
        }
        if (changed > 0) continue;
        for (const reader of readers.strings)
          add(`texts, ${name}`, 0, reader.name, round(reader, order));
      }
      if (options.redis) {
        const order = ordersOf(records, Math.min(reads, 30_000)).uniform;
        add('documents, uniform', changed, 'node-redis, cached', [
          await measureRedis(cleanup, records, order, changed),
        ]);
      }
    }
    console.log(`${records} records, index ${options.index}, Node ${process.versions.node}\n`);
    console.log(table(['reads', 'changed/s', 'by', 'ns', 'stale'], rows, 3));
    console.log('near cache:', readers.stats());
  } finally {
    await cleanup.run();
  }
}
