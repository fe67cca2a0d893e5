/** Changes keys of a store at a steady rate, as another client; see near-cache.ts. */
import { parentPort, workerData } from 'node:worker_threads';
import { createClient } from 'redis';
import { openAloneSync } from '../../src/store/open.ts';

/** What the writer is told. */
export interface WriterTask {
  /** The pool, or the port of a Redis. */
  url: string;
  redis: number;
  keys: number;
  perSecond: number;
  /** By key: the version of its last write that has ended. The readers' other channel. */
  versions: Int32Array;
  stop: Int32Array;
}

export const keyOf = (i: number) => `document:${i}`;

/** About 450 bytes of JSON; `text` is of 100 bytes. */
export function documentOf(i: number, version: number) {
  return {
    version,
    name: `customer ${i} of the shop`,
    mail: `customer${i}@example.com`,
    tags: ['alpha', 'beta', 'gamma', 'delta'],
    address: { street: `${i} Long Street`, city: 'Springfield', code: '12345' },
    scores: [1, 2, 3, 4, 5, 6, 7, 8],
    active: i % 2 === 0,
    notes: 'n'.repeat(180),
  };
}

const PAUSE_MS = 5;

async function main({ url, redis, keys, perSecond, versions, stop }: WriterTask): Promise<void> {
  const store = redis === 0 ? openAloneSync<object>(url, { values: 'json' }) : undefined;
  const client = redis === 0 ? undefined : createClient({ socket: { port: redis } });
  await client?.connect();
  const started = performance.now();
  for (let done = 0; Atomics.load(stop, 0) === 0; ) {
    const due = ((performance.now() - started) / 1000) * perSecond;
    for (; done < due; done++) {
      const key = Math.floor(Math.random() * keys);
      const version = versions[key] + 1;
      const value = documentOf(key, version);
      if (store) store.set(keyOf(key), value);
      else await client?.set(keyOf(key), JSON.stringify(value));
      Atomics.store(versions, key, version);
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
  store?.close();
  await client?.close();
  parentPort?.postMessage('done');
}

if (parentPort !== null) await main(workerData as WriterTask);
