import { setTimeout as sleep } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { startWorker } from '../../src/fabrics/start-worker.ts';
import { openSync } from '../../src/store/open.ts';
import { Prng } from '../workloads/index.ts';
import { DONE, ExpectedValues, ROW } from './expected-values.ts';
import { RoundFailure } from './round.ts';
import type { RoundSettings } from './settings.ts';
import { type Verdict, verify, type WorkOrder } from './worker.ts';

const POLL_MS = 10;

interface ThreadReport {
  operations: number;
  terminated: number;
  verdict: Verdict;
}

/** The same torture with threads on a `memory:` pool, which are terminated at random. */
export class ThreadRound {
  readonly #settings: RoundSettings;
  readonly #memory: SharedArrayBuffer;
  readonly #oracle: ExpectedValues;
  readonly #threads: Worker[] = [];
  #failure = '';

  private constructor(settings: RoundSettings) {
    this.#settings = settings;
    this.#memory = new SharedArrayBuffer(ExpectedValues.bytes(settings.shape));
    this.#oracle = new ExpectedValues(this.#memory, settings.shape).format();
  }

  static async run(settings: RoundSettings, terminations: number): Promise<ThreadReport> {
    const { poolBytes: size, regionBytes: regionSize, index } = settings;
    const round = new ThreadRound(settings);
    const store = openSync('memory:', { size, regionSize, index });
    try {
      return await round.#work(store.handle, terminations);
    } finally {
      await Promise.all(round.#threads.map((thread) => thread.terminate()));
      store.close();
    }
  }

  async #work(handle: WorkOrder['handle'], terminations: number): Promise<ThreadReport> {
    const { rows } = this.#settings.shape;
    const random = Prng.fromSeed(this.#settings.seed).fork(9);
    const all = rows * this.#settings.operations;
    const moments = Array.from({ length: terminations }, () => random.below(0.8 * all));
    moments.sort((a, b) => a - b);
    for (let row = 0; row < rows; row++) this.#start(row, 1, handle);
    let terminated = 0;
    while (!this.#finished()) {
      await sleep(POLL_MS);
      if (this.#failure !== '') throw new RoundFailure(this.#failure);
      if (terminated === moments.length) continue;
      if (this.#oracle.total(ROW.heartbeat) < moments[terminated]) continue;
      const row = random.below(rows);
      terminated++;
      if (this.#oracle.row(row, ROW.state) === DONE) continue;
      await this.#threads[row].terminate();
      this.#start(row, 1 + terminated, handle);
    }
    const order: WorkOrder = { role: 'verify', settings: this.#settings, row: 0, incarnation: 0 };
    const verdict = verify({ ...order, handle }, this.#oracle);
    return { operations: this.#oracle.total(ROW.heartbeat), terminated, verdict };
  }

  #finished(): boolean {
    const { rows } = this.#settings.shape;
    for (let row = 0; row < rows; row++) {
      if (this.#oracle.row(row, ROW.state) !== DONE) return false;
    }
    return true;
  }

  #start(row: number, incarnation: number, handle: WorkOrder['handle']): void {
    const order = { settings: this.#settings, row, incarnation, handle, memory: this.#memory };
    const workerData: WorkOrder = { role: 'work', ...order };
    const thread = startWorker(import.meta.url, 'worker', workerData);
    thread.on('message', ({ failure }: { failure?: string }) => {
      if (failure !== undefined) this.#failure ||= failure;
    });
    thread.on('error', (error) => {
      this.#failure ||= error.stack ?? error.message;
    });
    this.#threads[row] = thread;
  }
}
