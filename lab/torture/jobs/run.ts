/** Torture of a job queue: processes add and complete jobs while they are killed. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type JobCounts, queue } from '../../../src/helpers/index.ts';
import { checkSync, destroySync, openSync } from '../../../src/store/open.ts';
import { type Options, parseOptions } from '../../support/options.ts';
import { Prng } from '../../workloads/index.ts';
import { ADDING, type Findings, judge, readEvents } from './log.ts';
import { type JobOrder, MARKS, QUEUE } from './order.ts';

const SPEC = {
  jobs: { kind: 'integer', fallback: 100_000, minimum: 1, help: 'jobs of all workers together' },
  processes: { kind: 'integer', fallback: 4, minimum: 1, help: 'workers at a time' },
  every: { kind: 'integer', fallback: 300, minimum: 1, help: 'milliseconds between two kills' },
  suicide: {
    kind: 'integer',
    fallback: 0,
    help: 'workers kill themselves at one in this many doorbells',
  },
  size: { kind: 'text', fallback: '1g', help: 'size of the pool' },
  seed: { kind: 'integer', fallback: 1, help: 'of kills and workers' },
  canary: { kind: 'text', fallback: '', help: 'lose or again: the run must fail' },
} as const;

export type TortureOptions = Options<typeof SPEC>;

export interface TortureReport extends Findings {
  kills: number;
  seconds: number;
  left: JobCounts;
}

export async function main(argv: string[]): Promise<void> {
  const report = await tortureJobs(parseOptions('stepwell-lab torture-jobs', SPEC, argv));
  const { problems, ...figures } = report;
  console.log(JSON.stringify(figures));
  for (const problem of problems.slice(0, 20)) console.error(problem);
  console.log(problems.length === 0 ? 'no job was lost' : `${problems.length} problems`);
  if (problems.length > 0) process.exitCode = 1;
}

export async function tortureJobs(options: TortureOptions): Promise<TortureReport> {
  const folder = mkdtempSync(join(tmpdir(), 'stepwell-jobs-'));
  const url = `shm:torture-jobs-${process.pid}-${options.seed}`;
  const began = performance.now();
  const store = openSync(url, { ...QUEUE, size: options.size });
  openSync(url, MARKS).close();
  const crew = new Crew(options, url, folder);
  try {
    await crew.run();
    const left = await queue(store, 'torture').counts();
    const found = judge(crew.logs, options.jobs);
    found.problems.push(...crew.problems, ...checkSync(url, { sweep: true }).problems);
    // Between a completion and its note, a worker does nothing else.
    if (found.unheard > crew.kills) {
      found.problems.push(`${found.unheard} jobs are unaccounted for`);
    }
    if (left.waiting + left.delayed + left.active + left.dead > 0) {
      found.problems.push(`jobs are left: ${JSON.stringify(left)}`);
    }
    const seconds = Math.round(performance.now() - began) / 1000;
    return { ...found, kills: crew.kills, seconds, left };
  } finally {
    crew.end();
    store.close();
    destroySync(url, { force: true });
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The workers. One that is killed is replaced, and its successor goes on where it stopped. */
class Crew {
  readonly logs: readonly string[];
  readonly problems: string[] = [];
  kills = 0;
  readonly #options: TortureOptions;
  readonly #url: string;
  readonly #random: Prng;
  readonly #children = new Map<number, ChildProcess>();
  /** Those that say that they have work: a worker that is killed before does nothing, for ever. */
  readonly #busy = new Set<ChildProcess>();
  #incarnations = 0;

  constructor(options: TortureOptions, url: string, folder: string) {
    this.#options = options;
    this.#url = url;
    this.#random = Prng.fromSeed(options.seed);
    this.logs = Array.from({ length: options.processes }, (_, row) => join(folder, `${row}`));
  }

  async run(): Promise<void> {
    const killing = new AbortController();
    const kills = this.#killAll(killing.signal);
    await Promise.all(this.logs.map((_, row) => this.#keepRow(row)));
    killing.abort();
    await kills;
    // Jobs of workers that were killed last.
    await this.#runOne(0, 0);
  }

  end(): void {
    for (const child of this.#children.values()) child.kill('SIGKILL');
  }

  /** Runs workers of a row one after the other until one has ended by itself. */
  async #keepRow(row: number): Promise<void> {
    for (;;) {
      const how = await this.#runOne(row, this.#options.suicide);
      if (how !== 'SIGKILL') return;
      this.kills++;
    }
  }

  async #runOne(row: number, suicideEvery: number): Promise<unknown> {
    const order = this.#orderOf(row, suicideEvery);
    const file = new URL(`./worker${extname(fileURLToPath(import.meta.url))}`, import.meta.url);
    const child = fork(fileURLToPath(file), [JSON.stringify(order)], {
      execArgv: process.execArgv,
    });
    this.#children.set(row, child);
    child.on('message', (isBusy) => this.#busy[isBusy ? 'add' : 'delete'](child));
    const [code, signal] = await once(child, 'exit');
    this.#children.delete(row);
    this.#busy.delete(child);
    if (code !== 0 && signal !== 'SIGKILL') this.problems.push(`worker ${row} ended with ${code}`);
    return signal;
  }

  #orderOf(row: number, suicideEvery: number): JobOrder {
    const { jobs, processes, seed, canary } = this.#options;
    const [first, to] = [row, row + 1].map((one) => Math.floor((jobs * one) / processes));
    const log = this.logs[row];
    let from = first;
    if (existsSync(log)) {
      readEvents(log, (event, job) => {
        if (event === ADDING) from = job + 1;
      });
    }
    const own = seed + 7919 * ++this.#incarnations;
    return { url: this.#url, log, seed: own, from, to, suicideEvery, canary };
  }

  async #killAll(signal: AbortSignal): Promise<void> {
    for (;;) {
      await pause(this.#options.every, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      const busy = [...this.#busy];
      busy[this.#random.below(Math.max(1, busy.length))]?.kill('SIGKILL');
    }
  }
}
