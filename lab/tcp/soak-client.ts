/** A client process of the soak over UCX. It works until its parent ends it. */
import { setTimeout } from 'node:timers/promises';
import { open } from '../../src/store/open.ts';
import { Prng } from '../workloads/index.ts';

export interface SoakTask {
  url: string;
  seed: number;
  /** Whether it also opens and closes a second store once a second. */
  opens: boolean;
}

export interface SoakReport {
  calls: number;
  sessions: number;
  heap: number;
  external: number;
}

/** Half of the keys expire. What the store holds is bounded. */
const KEYS = 10_000;
const TTL_MS = 3000;
const SCANNED = 20;
/** Two lengths: with more, the pool takes longer to reach a steady number of blocks of each. */
const VALUES = ['x'.repeat(40), 'y'.repeat(300)];
const LANES = 16;
/** Calls between rests, because the memory node needs the same processors. */
const BURST = 64;
const REST_MS = 10;
const SESSION_MS = 1000;

const task = JSON.parse(process.argv[2]) as SoakTask;
const random = Prng.fromSeed(task.seed);
const store = await open(task.url, { index: 'chime', client: 'soak' });
/** `closed` lets a report wait until the second store is closed, so that it does not count it. */
const done = { calls: 0, sessions: 0, closed: Promise.resolve() };

async function act(): Promise<void> {
  const record = random.below(KEYS);
  const key = `k${record}`;
  const kind = random.below(10);
  const value = VALUES[random.below(VALUES.length)];
  if (kind < 3) await store.set(key, value, record % 2 === 0 ? { ttlMs: TTL_MS } : {});
  else if (kind < 4) await store.delete(key);
  else if (kind < 5) await store.scan({ gte: key, limit: SCANNED }).nextMany(SCANNED);
  else await store.get(key);
  done.calls++;
}

async function lane(): Promise<never> {
  for (;;) {
    for (let i = 0; i < BURST; i++) await act();
    await setTimeout(REST_MS);
  }
}

async function openAndClose(): Promise<never> {
  for (;;) {
    done.closed = openOnce();
    await done.closed;
    await setTimeout(SESSION_MS);
  }
}

async function openOnce(): Promise<void> {
  const other = await open(task.url, { store: 'other', client: `soak ${++done.sessions}` });
  await other.get('k0');
  await other.close();
}

const work = [...Array.from({ length: LANES }, lane), ...(task.opens ? [openAndClose()] : [])];
Promise.all(work).catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
process.on('message', async () => {
  await done.closed;
  const { calls, sessions } = done;
  const { heapUsed: heap, external } = process.memoryUsage();
  process.send?.({ calls, sessions, heap, external } satisfies SoakReport);
});
process.on('disconnect', () => process.exit());
process.send?.('ready');
