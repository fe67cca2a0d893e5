/** The other end of `Child`: runs in a process of its own. */
import { once } from 'node:events';
import { StepwellError } from '../../../../errors.ts';
import { startWorker } from '../../../../fabrics/start-worker.ts';
import { CHUNK_SPAN, unpackChunk } from '../../../../pool/memory/chunk-word.ts';
import type { OpenOptions, Store } from '../../../api.ts';
import { attach, createSync, openSync } from '../../../open.ts';
import { copyPool } from '../../../pools/copy-pool.ts';
import { openStore } from '../../../store-in-pool.ts';
import type { ThreadTask } from './worker-tasks.ts';

export type Order =
  | { kind: 'open'; url: string; options: OpenOptions; at: number; key: string }
  | { kind: 'create'; url: string; options: OpenOptions; at: number }
  | { kind: 'attach'; url: string }
  | { kind: 'fill'; url: string; options: OpenOptions; valueBytes: number }
  /** Fills the pool, reads all of it, clears it and keeps it open; how many values there were. */
  | { kind: 'refill'; url: string; options: OpenOptions; valueBytes: number }
  /**
   * Writes keys with a prefix of their own, removes half of them and keeps the store open, or dies
   * by SIGKILL in the same burst.
   */
  | { kind: 'churn'; url: string; options: OpenOptions; keys: number; dies?: boolean }
  /** Writes and removes keys by chance, values of all sizes up to this one, until it is killed. */
  | { kind: 'scribble'; url: string; options: OpenOptions; keys: number; valueBytes: number }
  /** Sets so many keys with a prefix; how many it could. The event loop turns now and then. */
  | { kind: 'set'; url: string; options: OpenOptions; prefix: string; keys: number; bytes: number }
  /** Writes keys of a bounded store, by chance out of so many, until it is killed. */
  | { kind: 'evict'; url: string; options: OpenOptions; keys: number; valueBytes: number }
  /** Makes a store, and dies by SIGKILL as soon as it has so many chunks in spans. */
  | { kind: 'die'; url: string; options: OpenOptions; chunks: number }
  /** The same, and stands still then with the catalog's lock. */
  | { kind: 'hold'; url: string; options: OpenOptions; chunks: number }
  /** Copies the pool, and dies by SIGKILL when it has told of its progress so often. */
  | { kind: 'copy'; url: string; to: string; diesAt: number }
  /** Opens the store in a thread, which it terminates. */
  | { kind: 'terminate'; url: string; options: OpenOptions }
  /** Reads from the first store that was opened. */
  | { kind: 'read'; key: string }
  | { kind: 'close' };

const open: Store[] = [];

process.on('message', async (order: Order) => {
  process.send?.(await answer(order));
});
process.on('disconnect', () => process.exit());

async function answer(order: Order): Promise<unknown> {
  try {
    if (order.kind === 'terminate') return await terminateThread(order);
    if (order.kind === 'copy') return await copy(order);
    if (order.kind === 'set') return await setKeys(order);
    return obey(order);
  } catch (error) {
    return error instanceof StepwellError ? error.code : `raw ${String(error)}`;
  }
}

function obey(order: Exclude<Order, { kind: 'terminate' | 'copy' | 'set' }>): unknown {
  if (order.kind === 'close') {
    for (const store of open.splice(0)) store.close();
    return 'closed';
  }
  if (order.kind === 'read') return open[0].get(order.key) ?? 'absent';
  if (order.kind === 'attach') return attachAsSoonAsPossible(order.url);
  if (order.kind === 'churn') return churn(order);
  if (order.kind === 'evict') return evict(order);
  if (order.kind === 'scribble') return scribble(order);
  if (order.kind === 'die') return makeUntil(order, () => process.kill(process.pid, 'SIGKILL'));
  if (order.kind === 'hold') return makeUntil(order, () => {});
  if (order.kind === 'fill') return fill(order.url, order.options, order.valueBytes);
  if (order.kind === 'refill') return refill(order.url, order.options, order.valueBytes);
  // Both children spin to the same moment, so that they really meet.
  while (Date.now() < order.at);
  if (order.kind === 'create') {
    createSync(order.url, order.options);
    return 'created';
  }
  const store = openSync(order.url, order.options);
  open.push(store);
  store.set(order.key, 'here');
  return 'open';
}

/** In bursts: its parent hears of the first when that has ended. */
function evict({ url, options, keys, valueBytes }: Extract<Order, { kind: 'evict' }>): string {
  const store = openSync(url, options);
  open.push(store);
  const burst = () => {
    for (let i = 0; i < 2000; i++) {
      const key = `key ${Math.floor(Math.random() * keys)}`;
      if (store.get(key) === undefined) store.set(key, key.padEnd(valueBytes));
    }
    setImmediate(burst);
  };
  burst();
  return 'evicting';
}

function scribble(order: Extract<Order, { kind: 'scribble' }>): string {
  const { url, options, keys, valueBytes } = order;
  const store = openSync(url, options);
  open.push(store);
  const chance = (below: number) => Math.floor(Math.random() * below);
  const burst = () => {
    for (let i = 0; i < 200; i++) {
      const key = `key ${chance(keys)}`;
      if (chance(2) === 0) store.delete(key);
      else store.set(key, 'y'.repeat(chance(valueBytes)));
    }
    setImmediate(burst);
  };
  burst();
  return 'scribbling';
}

async function setKeys(order: Extract<Order, { kind: 'set' }>): Promise<number> {
  const { url, options, prefix, keys, bytes } = order;
  if (open.length === 0) open.push(openSync(url, options));
  const value = 'q'.repeat(bytes);
  for (let i = 0; i < keys; i++) {
    if (i % 500 === 0) await new Promise((resolve) => setImmediate(resolve));
    if (codeOf(() => open[0].set(`${prefix}${i}`, value)) !== 'none') return i;
  }
  return keys;
}

/** Nothing but "not there yet" may be seen of a pool that is being created. */
function attachAsSoonAsPossible(url: string): string {
  for (let attempt = 0; attempt < 1_000_000; attempt++) {
    try {
      open.push(openSync(url, { create: false }));
      return 'open';
    } catch (error) {
      const code = error instanceof StepwellError ? error.code : String(error);
      if (code !== 'SW_POOL_NOT_FOUND' && code !== 'SW_STORE_NOT_FOUND') return code;
    }
  }
  return 'never came';
}

/** Fills a pool until it is full, then does what a full pool must still do. */
function fill(url: string, options: OpenOptions, valueBytes: number): unknown {
  const value = 'x'.repeat(valueBytes);
  const store = openSync(url, options);
  let stored = 0;
  const code = codeOf(() => {
    for (; ; stored++) store.set(`key ${stored}`, value);
  });
  let readable = 0;
  for (let i = 0; i < stored; i++) if (store.get(`key ${i}`) === value) readable++;
  const size = store.size;
  const other = codeOf(() => openSync(url, { store: 'another' }));
  for (let i = 0; i < stored; i++) store.delete(`key ${i}`);
  store.close();
  return { code, lost: stored - readable, same: size === stored, other, some: stored > 0 };
}

function refill(url: string, options: OpenOptions, valueBytes: number): unknown {
  if (open.length === 0) open.push(openSync(url, options));
  const [store] = open;
  const value = 'x'.repeat(valueBytes);
  let stored = 0;
  const code = codeOf(() => {
    for (; ; stored++) store.set(`${valueBytes} ${stored}`, value);
  });
  let readable = 0;
  for (let i = 0; i < stored; i++) if (store.get(`${valueBytes} ${i}`) === value) readable++;
  store.clear();
  return code === 'SW_POOL_FULL' && readable === stored ? stored : `${code}, ${readable} read`;
}

function churn({ url, options, keys, dies }: Extract<Order, { kind: 'churn' }>): string {
  const store = openSync(url, options);
  open.push(store);
  for (let i = 0; i < keys; i++) store.set(`churned ${i}`, `of ${i}`);
  for (let i = 0; i < keys; i += 2) store.delete(`churned ${i}`);
  if (dies) process.kill(process.pid, 'SIGKILL');
  return 'churned';
}

function makeUntil(
  { url, options, chunks }: Extract<Order, { kind: 'die' | 'hold' }>,
  then: () => void,
): string {
  const { pool } = attach(url, options).client;
  const making = openStore(pool, options);
  const isSpan = ([, word]: [number, bigint]) => unpackChunk(word).state === CHUNK_SPAN;
  for (let step = making.next(); !step.done; step = making.next()) {
    pool.fabric.execute(step.value);
    const taken = pool.run(pool.chunks.words()).filter(isSpan).length;
    if (taken < chunks) continue;
    then();
    return 'holding';
  }
  return 'made';
}

async function copy({ url, to, diesAt }: Extract<Order, { kind: 'copy' }>): Promise<string> {
  let told = 0;
  const onProgress = () => {
    if (++told === diesAt) process.kill(process.pid, 'SIGKILL');
  };
  await copyPool(url, to, { onProgress });
  return 'copied';
}

async function terminateThread({ url, options }: Extract<Order, { kind: 'terminate' }>) {
  const nothing = { increments: 0, prefix: '', inserts: 0, store: options.store ?? 'default' };
  const worker = startWorker(import.meta.url, 'worker-tasks', {
    ...nothing,
    handle: url,
    forever: true,
  } satisfies ThreadTask);
  await once(worker, 'message');
  await worker.terminate();
  return 'terminated';
}

function codeOf(action: () => void): string {
  try {
    action();
    return 'none';
  } catch (error) {
    return error instanceof StepwellError ? error.code : `raw ${String(error)}`;
  }
}
