/** A client of the campaign. It makes random calls, and logs each one before and after. */
import { openSync, writeSync } from 'node:fs';
import { StepwellError } from '../../../src/errors.ts';
import type { AsyncStore, OpenOptions } from '../../../src/store/api.ts';
import { open } from '../../../src/store/open.ts';
import { Prng } from '../../workloads/index.ts';
import { KINDS, type Kind, type LogLine } from './calls.ts';

export interface NetworkTask {
  url: string;
  options: OpenOptions;
  seed: number;
  /** Unique in a run, because values contain it. */
  number: number;
  keys: number;
  /** Calls in flight together, and the mean pause between the calls of one lane. */
  lanes: number;
  pauseMs: number;
  log: string;
  /** A canary: the client sometimes claims to have stored a value that it has not. */
  lies?: boolean;
}

/** The number of calls answered so far, or the code of a call that failed. */
export type NetworkReport = { answered: number } | { error: string };

const task = JSON.parse(process.argv[2]) as NetworkTask;
const log = openSync(task.log, 'a');
const prng = Prng.fromSeed(task.seed);
const state = { running: true, next: 0, answered: 0 };
const clock = () => Number(process.hrtime.bigint());
const note = (line: LogLine) => writeSync(log, `${JSON.stringify(line)}\n`);
const report = (message: NetworkReport) => process.send?.(message);
const rest = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
process.on('message', () => {
  state.running = false;
});
process.on('disconnect', () => process.exit());

async function call(store: AsyncStore, kind: Kind, key: string, value: string) {
  switch (kind) {
    case 'get':
      return ((await store.get(key)) as string | undefined) ?? null;
    case 'set':
      if (task.lies !== true || prng.below(4) > 0) await store.set(key, value);
      return true;
    case 'insert':
      return store.insert(key, value);
    case 'update':
      return store.update(key, value);
    case 'delete':
      return store.delete(key);
    case 'take':
      return ((await store.take(key)) as string | undefined) ?? null;
    case 'increment':
      return String(await store.increment(key));
  }
}

/**
 * Waits until the store answers again, by calls that change nothing. Any failed write may or may
 * not have happened, and too many of them would explain any history.
 */
async function answersAgain(store: AsyncStore): Promise<void> {
  while (state.running) {
    try {
      await store.has('nothing');
      return;
    } catch (error) {
      if (!(error instanceof StepwellError)) throw error;
      await rest(50);
    }
  }
}

async function lane(store: AsyncStore): Promise<void> {
  while (state.running) {
    const kind = KINDS[prng.below(KINDS.length)];
    const key = `key${prng.below(task.keys)}`;
    const id = ++state.next;
    // Far apart, so that no increment produces a value that another client writes.
    const value = String((task.number * 1_000_000 + id) * 1000);
    note({ id, kind, key, value, at: clock() });
    try {
      const answer = await call(store, kind, key, value);
      note({ id, answer, at: clock() });
      state.answered++;
      report({ answered: state.answered });
    } catch (error) {
      if (!(error instanceof StepwellError)) throw error;
      report({ error: error.code });
      await answersAgain(store);
    }
    await rest(prng.below(2 * task.pauseMs + 1));
  }
}

async function openPatiently(): Promise<AsyncStore> {
  for (;;) {
    try {
      return await open(task.url, task.options);
    } catch (error) {
      if (!(error instanceof StepwellError) || !state.running) throw error;
      report({ error: error.code });
      // Bounded by the campaign, which stops a client that makes no progress.
      await rest(50);
    }
  }
}

const store = await openPatiently();
report({ answered: 0 });
await Promise.all(Array.from({ length: task.lanes }, () => lane(store)));
await store.close();
process.disconnect?.();
