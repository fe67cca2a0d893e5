/** Runs a worker thread's task on the pool whose handle it was given. */
import { parentPort, workerData } from 'node:worker_threads';
import type { PoolHandle, Store } from '../../../api.ts';
import { openSync } from '../../../open.ts';

export interface ThreadTask {
  /**
   * Instead of the rest: writes `${key}=${round}` to keys that stay, and inserts and removes others
   * between them, round by round, until the key `stop` is there.
   */
  churn?: { stay: string[]; come: string[]; roundsMax: number };
  handle: PoolHandle;
  store: string;
  /** Instead of the rest: opens the store and keeps it open until the thread is terminated. */
  forever?: boolean;
  /** Increments of the key `counter`. */
  increments: number;
  /** Keys `prefix0`… that this thread alone inserts, each with its own name as value. */
  prefix: string;
  inserts: number;
}

function perform(task: ThreadTask): number {
  const { handle, store: name, increments, prefix, inserts } = task;
  const store = openSync(handle, { store: name, create: false });
  if (task.forever) {
    setInterval(() => store.has('nothing'), 10);
    return 0;
  }
  try {
    if (task.churn) return churn(store, task.churn);
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

function churn(store: Store, { stay, come, roundsMax }: NonNullable<ThreadTask['churn']>): number {
  for (let round = 1; round <= roundsMax; round++) {
    if (store.has('stop')) return round;
    for (const [i, key] of come.entries()) {
      if ((i + round) % 3 === 0) store.set(key, `${key}=${round}`);
      else store.delete(key);
      if (i < stay.length) store.set(stay[i], `${stay[i]}=${round}`);
    }
  }
  return roundsMax;
}

parentPort?.postMessage(perform(workerData as ThreadTask));
