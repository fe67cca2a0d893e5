/** A process that shares a store with others and runs the tasks of tasks.ts. */
import { setImmediate as turn } from 'node:timers/promises';
import { hasCode } from '../../src/errors.ts';
import type { Store, Value } from '../../src/store/api.ts';
import { openSync } from '../../src/store/open.ts';
import { Prng } from '../workloads/index.ts';
import type { Done, Task } from './tasks.ts';
import { COUNTER, sizesOf } from './tasks.ts';

/** Calls between two turns of the event loop. */
const BURST = 100;

const NOTHING: Done = { refused: 0, hits: 0, taken: 0, wrong: 0, nanoseconds: [] };

/** A task opens the store for those that follow. */
function worker(): (task: Task) => Promise<Done> {
  let store: Store<Value> | undefined;
  return async (task) => {
    if (task.kind === 'open') {
      store = openSync(task.url, { create: false, store: 'c' });
      return { ...NOTHING };
    }
    if (task.kind === 'close') {
      store?.close();
      return { ...NOTHING };
    }
    if (store === undefined) throw new Error('no store is open');
    if (task.kind === 'churn') return await churn(store, task);
    return task.kind === 'write' ? await write(store, task) : await request(store, task);
  };
}

/** Writes new keys, one after the other. */
async function write(
  store: Store<Value>,
  { from, count, sizes, timed }: Task & { kind: 'write' },
): Promise<Done> {
  const values = sizesOf(sizes).map((bytes) => 'v'.repeat(bytes));
  const nanoseconds = new Float64Array(timed ? count : 0);
  let refused = 0;
  for (let i = 0; i < count; i++) {
    const key = `k${from + i}`;
    const value = values[i % values.length];
    const begun = timed ? process.hrtime.bigint() : 0n;
    try {
      store.set(key, value);
    } catch (error) {
      if (!hasCode(error, 'SW_POOL_FULL')) throw error;
      refused++;
    }
    if (timed) nanoseconds[i] = Number(process.hrtime.bigint() - begun);
    if (i % BURST === 0) await turn();
  }
  return { ...NOTHING, refused, nanoseconds: [...nanoseconds] };
}

/**
 * Requests keys, and inserts each key that misses. The processes take the requests one by one, from
 * a counter that they share: together they request the keys in the given order.
 */
async function request(
  store: Store<Value>,
  { url, keys, first }: Task & { kind: 'request' },
): Promise<Done> {
  const counter = openSync(url, { create: false, store: COUNTER });
  let hits = 0;
  let taken = 0;
  try {
    while (true) {
      const at = counter.increment('requests') - 1;
      if (at >= keys.length) break;
      const key = String(keys[at]);
      const isHit = store.get(key) !== undefined;
      if (isHit && at >= first) hits++;
      if (!isHit) store.set(key, 'v'.repeat(32));
      if (taken++ % BURST === 0) await turn();
    }
  } finally {
    counter.close();
  }
  return { ...NOTHING, hits, taken };
}

/** Random writes, reads and deletions; each value tells which key it is of. */
async function churn(
  store: Store<Value>,
  { seed, count, keys, sizes }: Task & { kind: 'churn' },
): Promise<Done> {
  const random = Prng.fromSeed(seed);
  const bytes = sizesOf(sizes);
  const done = { ...NOTHING };
  for (let i = 0; i < count; i++) {
    const key = `c${random.below(keys)}`;
    const choice = random.below(16);
    try {
      if (choice < 10) store.set(key, `${key}|`.padEnd(bytes[random.below(bytes.length)], 'v'));
      else if (choice < 13) store.delete(key);
      else if (!(store.get(key) ?? `${key}|`).toString().startsWith(`${key}|`)) done.wrong++;
    } catch (error) {
      if (!hasCode(error, 'SW_POOL_FULL')) throw error;
      done.refused++;
    }
    if (i % BURST === 0) await turn();
  }
  return done;
}

const run = worker();
process.on('message', async (task: Task) => {
  try {
    process.send?.(await run(task));
  } catch (error) {
    process.send?.({ failed: String(error) });
  }
});
process.on('disconnect', () => process.exit());
