/** A client of the campaign: calls at random, each noted before and after. */
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
  /** Different for every client of a run: values name their writer. */
  number: number;
  keys: number;
  /** Calls under way together, and the mean pause of each lane. */
  lanes: number;
  pauseMs: number;
  log: string;
  /** A client that must be caught: it says that it has stored what it has not, now and then. */
  lies?: boolean;
}

/** How many calls were answered so far, and the codes of those that failed. */
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
 * Searches, which change nothing, until one is answered. Every call that fails may have happened or
 * not, and a history of too many of them could mean anything.
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
    // Far apart, so that no increment makes a value that another client writes.
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
