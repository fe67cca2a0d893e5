import { type ChildProcess, fork } from 'node:child_process';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Answer, Order, PeerSettings, Task, Timing } from './protocol.ts';

const HEAP_MIB = 6144;
const START_DELAY_NS = 20_000_000n;
/** Loading 20 million records takes minutes, and longer on a busy machine. */
const ANSWER_WITHIN_MS = 60 * 60_000;
const EXIT_WITHIN_MS = 5000;

/** One worker process. It executes one order at a time. */
export class Worker {
  readonly #child: ChildProcess;
  #waiting: ((answer: Answer) => void) | undefined;

  constructor() {
    // Inherit the parent's arguments: with sources, they load tsx.
    const script = new URL(`./worker${extname(fileURLToPath(import.meta.url))}`, import.meta.url);
    this.#child = fork(fileURLToPath(script), [], {
      execArgv: [...process.execArgv, '--expose-gc', `--max-old-space-size=${HEAP_MIB}`],
      serialization: 'advanced',
    });
    this.#child.on('message', (answer: Answer) => this.#settle(answer));
    this.#child.on('exit', (code, signal) => {
      this.#settle({ ok: false, message: `the worker ended (code ${code}, signal ${signal})` });
    });
    this.#child.on('error', ({ message }) => this.#settle({ ok: false, message }));
  }

  async ask(order: Order): Promise<Extract<Answer, { ok: true }>> {
    if (this.#waiting !== undefined) throw new Error('the worker is busy');
    const answer = await new Promise<Answer>((resolve) => {
      if (!this.#child.connected) return resolve({ ok: false, message: 'the worker has ended' });
      const timer = setTimeout(
        () => this.#settle({ ok: false, message: `no answer to '${order.kind}' in time` }),
        ANSWER_WITHIN_MS,
      );
      this.#waiting = (given) => {
        clearTimeout(timer);
        resolve(given);
      };
      this.#child.send(order);
    });
    if (!answer.ok) throw new Error(answer.message);
    return answer;
  }

  async time(order: Order): Promise<Timing> {
    const { timing } = await this.ask(order);
    if (timing === undefined) throw new Error(`no timing for '${order.kind}'`);
    return timing;
  }

  /** Asks the worker to close its peer and exit; kills it if it does not. */
  async end(): Promise<void> {
    const { exitCode, signalCode } = this.#child;
    if (exitCode !== null || signalCode !== null) return;
    const gone = new Promise<void>((resolve) => this.#child.once('exit', () => resolve()));
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), EXIT_WITHIN_MS);
    if (this.#waiting === undefined) await this.ask({ kind: 'close' }).catch(() => {});
    if (this.#child.connected) this.#child.disconnect();
    await gone;
    clearTimeout(timer);
  }

  #settle(answer: Answer): void {
    const settle = this.#waiting;
    this.#waiting = undefined;
    settle?.(answer);
  }
}

/** The processes that share one peer's store. */
export class Crew {
  readonly settings: PeerSettings;
  readonly #workers: Worker[];

  private constructor(settings: PeerSettings, workers: Worker[]) {
    this.settings = settings;
    this.#workers = workers;
  }

  static async start(settings: PeerSettings, processes: number): Promise<Crew> {
    const crew = new Crew(settings, []);
    try {
      // One at a time: the first creates the store.
      for (let i = 0; i < processes; i++) {
        const worker = new Worker();
        crew.#workers.push(worker);
        await worker.ask({ kind: 'open', settings });
      }
    } catch (error) {
      await crew.end();
      throw error;
    }
    return crew;
  }

  /**
   * Runs one task per process, all starting at the same moment of the shared clock. The time is
   * from the first start to the last end, so waiting for another process costs throughput.
   */
  async run(tasks: readonly Task[]): Promise<{ operations: number; nanoseconds: number }> {
    const used = tasks.map((_, i) => this.#workers[i]);
    await Promise.all(used.map((worker, i) => worker.ask({ kind: 'prepare', task: tasks[i] })));
    const at = process.hrtime.bigint() + START_DELAY_NS;
    const timings = await Promise.all(used.map((worker) => worker.time({ kind: 'run', at })));
    return combine(timings);
  }

  async loadAll(): Promise<{ operations: number; nanoseconds: number }> {
    return combine([await this.#workers[0].time({ kind: 'load' })]);
  }

  /** Checks that every process sees what was written, also by others. */
  async verify(count: number, seed: number): Promise<void> {
    for (const worker of this.#workers) await worker.ask({ kind: 'verify', count, seed });
  }

  async describe(): Promise<Record<string, unknown>> {
    return (await this.#workers[0].ask({ kind: 'describe' })).description ?? {};
  }

  async end(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.end()));
  }
}

export function combine(timings: readonly Timing[]): { operations: number; nanoseconds: number } {
  const since = (moment: bigint) => Number(moment - timings[0].begin);
  const begin = Math.min(...timings.map((timing) => since(timing.begin)));
  const end = Math.max(...timings.map((timing) => since(timing.end)));
  const operations = timings.reduce((sum, timing) => sum + timing.operations, 0);
  return { operations, nanoseconds: end - begin };
}
