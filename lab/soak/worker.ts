/** A worker process of the soak. It works until its time is up, or until it is ended or killed. */
import { setTimeout } from 'node:timers/promises';
import { hasCode, type StepwellError } from '../../src/errors.ts';
import { dropStoreSync, openSync } from '../../src/store/open.ts';
import { Prng } from '../workloads/index.ts';
import { checkValue, type DayStores, openStores, valueFor } from './stores.ts';

/** The process's argument, as JSON. */
export interface WorkerTask {
  url: string;
  name: string;
  /** A number, from 0 on, that no other live worker has. */
  place: number;
  seed: number;
  lifeMs: number;
}

/** Totals so far, sent periodically. A killed worker's last operations are not counted. */
export interface WorkerReport {
  operations: number;
  /** Writes that found the pool full. */
  full: number;
  failure?: string;
}

const BURST = 60;
const PAUSE_MS = 4;
const BURSTS_PER_REPORT = 25;
const KEYS = 20_000;
const EVENTS_KEPT = 3000;
const WAVE_RECORDS = 1500;
const WAVE_INDEXES = ['race', 'chime', 'shard', 'sephash'] as const;

const task = JSON.parse(process.argv[2]) as WorkerTask;
const random = Prng.fromSeed(task.seed);
const told = new AbortController();
process.once('SIGTERM', () => told.abort());
process.once('disconnect', () => told.abort());

const bytes = () => 20 + random.below(400);
const keyOf = (kind: string) => `${kind}:${random.below(KEYS)}`;

/** The operations that a worker chooses from. */
const CHORES: ((stores: DayStores) => void)[] = [
  ({ sessions }) => {
    const key = keyOf('session');
    const value = sessions.get(key);
    checkValue(key, value);
    if (value === undefined) sessions.set(key, valueFor(key, bytes()));
  },
  ({ cache }) => through(cache, keyOf('article')),
  ({ pages }) => through(pages, keyOf('page')),
  ({ events }) => {
    const key = `event:${Date.now().toString(36)}:${random.below(1e6)}`;
    events.set(key, valueFor(key, bytes()));
    if (random.below(200) === 0) trim(events);
  },
  ({ table }) => {
    const key = keyOf('row');
    checkValue(key, table.get(key));
    if (random.below(3) === 0) table.delete(key);
    else table.set(key, valueFor(key, bytes()));
  },
  ({ table }) => {
    table.increment('total', 1, { ttlMs: 600_000 });
  },
  ({ profiles }) => {
    const key = keyOf('profile');
    checkValue(key, profiles.get(key));
    if (random.below(4) === 0) profiles.delete(key);
    else profiles.set(key, valueFor(key, 40));
  },
];

function through(store: DayStores['cache'], key: string): void {
  const value = store.get(key);
  checkValue(key, value);
  if (value === undefined) store.set(key, valueFor(key, bytes()));
}

/** Deletes all but the latest events. */
function trim(events: DayStores['events']): void {
  const surplus = events.count() - EVENTS_KEPT;
  if (surplus <= 0) return;
  for (const key of [...events.keys({ limit: surplus })]) events.delete(key);
}

/** Creates, fills, checks and drops a store. A dead worker may have left the store behind. */
function wave(url: string): void {
  const index = WAVE_INDEXES[task.place % WAVE_INDEXES.length];
  const store = `wave ${task.place}`;
  const open = openSync(url, { store, index, values: 'utf8', client: task.name });
  try {
    for (let i = 0; i < WAVE_RECORDS; i++) open.set(`key ${i}`, valueFor(`key ${i}`, 60));
    for (let i = 0; i < WAVE_RECORDS; i++) checkValue(`key ${i}`, open.get(`key ${i}`) ?? '-');
  } finally {
    open.close();
  }
  // Force: a web page may have the store open (`--beside web`).
  dropStoreSync(url, store, { force: true });
}

async function work(): Promise<void> {
  const stores = openStores(task.url, task.name);
  const end = performance.now() + task.lifeMs;
  let operations = 0;
  let full = 0;
  for (let burst = 1; !told.signal.aborted && performance.now() < end; burst++) {
    for (let i = 0; i < BURST; i++) {
      try {
        CHORES[random.below(CHORES.length)](stores);
      } catch (error) {
        if (!hasCode(error, 'SW_POOL_FULL')) throw error;
        full++;
      }
    }
    operations += BURST;
    if (burst % (8 * BURSTS_PER_REPORT) === 0) wave(task.url);
    if (burst % BURSTS_PER_REPORT === 1) report({ operations, full });
    await setTimeout(PAUSE_MS);
  }
  for (const store of Object.values(stores)) store.close();
  report({ operations, full });
}

function report(message: WorkerReport): void {
  process.send?.(message);
}

try {
  await work();
  process.disconnect?.();
} catch (error) {
  const { code, stack } = error as StepwellError;
  report({ operations: 0, full: 0, failure: `${task.name}: ${code ?? ''} ${stack}` });
  process.exitCode = 1;
  process.disconnect?.();
}
