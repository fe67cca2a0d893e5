/** What a worker thread of a test does with the pool whose handle it was given. */
import { parentPort, workerData } from 'node:worker_threads';
import type { PoolHandle } from '../api.ts';
import { openSync } from '../open.ts';

export interface ThreadTask {
  handle: PoolHandle;
  store: string;
  /** Increments of the key `counter`. */
  increments: number;
  /** Keys `prefix0`… that this thread alone inserts, each with its own name as value. */
  prefix: string;
  inserts: number;
}

function perform({ handle, store: name, increments, prefix, inserts }: ThreadTask): number {
  const store = openSync(handle, { store: name, create: false });
  try {
    let inserted = 0;
    for (let i = 0; i < Math.max(increments, inserts); i++) {
      if (i < increments) store.increment('counter');
      if (i < inserts && store.insert(prefix + i, prefix + i)) inserted++;
    }
    return inserted;
  } finally {
    store.close();
  }
}

parentPort?.postMessage(perform(workerData as ThreadTask));
