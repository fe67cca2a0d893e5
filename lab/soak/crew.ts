import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Prng } from '../workloads/index.ts';
import type { WorkerReport, WorkerTask } from './worker.ts';

const EXTENSION = extname(import.meta.url);
const SCRIPT = fileURLToPath(new URL(`./worker${EXTENSION}`, import.meta.url));

interface CrewSettings {
  url: string;
  workers: number;
  /** A worker lives at least this long, and at most three times as long. */
  lifeMs: number;
}

/**
 * Worker processes that come and go: every other one is killed in the middle of its work, the
 * others end normally. The first one stays, so that its memory can be measured.
 */
export class Crew {
  operations = 0;
  full = 0;
  started = 0;
  killed = 0;
  readonly failures: string[] = [];
  readonly #settings: CrewSettings;
  readonly #random: Prng;
  readonly #alive = new Set<ChildProcess>();
  #resident: ChildProcess | undefined;
  #isOver = false;

  constructor(settings: CrewSettings, random: Prng) {
    this.#settings = settings;
    this.#random = random;
  }

  /** Process id of the worker that stays. */
  get residentPid(): number | undefined {
    return this.#resident?.pid;
  }

  /** Returns once the first worker has reported. */
  async start(): Promise<void> {
    this.#resident = this.#spawn(0, Number.MAX_SAFE_INTEGER);
    for (let place = 1; place < this.#settings.workers; place++) this.#next(place);
    await Promise.race([once(this.#resident, 'message'), once(this.#resident, 'close')]);
  }

  /** Ends all workers; each finishes its current burst. */
  async stop(): Promise<void> {
    this.#isOver = true;
    const ends = [...this.#alive].map(async (child) => {
      const ended = once(child, 'close');
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), 20_000);
      await ended;
      clearTimeout(timer);
    });
    await Promise.all(ends);
  }

  /** Kills all remaining workers. */
  kill(): void {
    this.#isOver = true;
    for (const child of this.#alive) child.kill('SIGKILL');
  }

  #next(place: number): void {
    if (this.#isOver) return;
    const { lifeMs } = this.#settings;
    const child = this.#spawn(place, lifeMs + this.#random.below(2 * lifeMs));
    if (this.started % 2 === 0) this.#killLater(child, lifeMs);
    child.once('close', () => this.#next(place));
  }

  #killLater(child: ChildProcess, lifeMs: number): void {
    const timer = setTimeout(() => {
      if (this.#isOver || !child.kill('SIGKILL')) return;
      this.killed++;
    }, this.#random.below(lifeMs));
    child.once('close', () => clearTimeout(timer));
  }

  #spawn(place: number, lifeMs: number): ChildProcess {
    const name = `worker ${++this.started}`;
    const { url } = this.#settings;
    const task: WorkerTask = { url, name, place, seed: this.#random.below(2 ** 31), lifeMs };
    const execArgv = EXTENSION === '.ts' ? ['--import', import.meta.resolve('tsx')] : [];
    const child = fork(SCRIPT, [JSON.stringify(task)], { execArgv });
    this.#alive.add(child);
    let last: WorkerReport = { operations: 0, full: 0 };
    child.on('message', (report: WorkerReport) => {
      if (report.failure !== undefined) {
        this.failures.push(report.failure);
        return;
      }
      this.operations += report.operations - last.operations;
      this.full += report.full - last.full;
      last = report;
    });
    child.once('close', (code, signal) => {
      this.#alive.delete(child);
      // SIGTERM may reach the process before it has installed its handler.
      const isFine = code === 0 || signal === 'SIGKILL' || signal === 'SIGTERM';
      if (!isFine) this.failures.push(`${name} ended with code ${code}, signal ${signal}`);
    });
    return child;
  }
}
