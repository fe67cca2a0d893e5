import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { extname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { checkSync, destroySync, inspectSync } from '../../src/store/open.ts';
import { Prng } from '../workloads/index.ts';
import { ROW, RUNNING, STARTING } from './expected-values.ts';
import { OracleFile } from './oracle-file.ts';
import { KINDS } from './session/operations.ts';
import type { RoundSettings } from './settings.ts';
import type { Verdict, WorkOrder } from './worker.ts';

/** What disturbs the workers, spread over the round by completed operations. */
export interface Disturbances {
  /** Workers killed one at a time. */
  kills: number;
  /** How often all workers are killed together. */
  massacres: number;
  /** How often a worker is stopped, and continued later. */
  stops: number;
  /** A full pool is a fault even after a worker's death, whose memory waits for a sweep. */
  strict: boolean;
  /** A worker is stuck if it could run for this long without completing an operation. */
  stallMs: number;
  /** A worker fails to start if it could run for this long without having started. */
  startMs: number;
}

export interface RoundReport {
  operations: number;
  byKind: Record<string, number>;
  kills: number;
  /** How many of these workers killed themselves, between two verbs. */
  suicides: number;
  stops: number;
  splits: number;
  poolFull: number;
  repeated: number;
  longestStallMs: number;
  verdict: Verdict;
}

/** The round found something that Stepwell must never do; the text names the seed. */
export class RoundFailure extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'RoundFailure';
  }
}

const POLL_MS = 20;
const OPERATIONS_AFTER_STOP = 300;
/** A worker that is stopped while it holds a lock may block all others, so bound the stop. */
const STOPPED_MS = 3000;

/**
 * Signals reach `unshare`. If it is killed, the worker dies too; if it is stopped, it does not
 * stop.
 */
const ALONE = ['unshare', '--pid', '--fork', '--mount-proc', '--kill-child'];

interface Crewman {
  row: number;
  incarnation: number;
  child: ChildProcess;
  errors: string;
  output: string;
  exited: Promise<void>;
  killed: boolean;
  startedAt: number;
  /** Milliseconds since `startedAt` for which it was stopped. */
  stoppedMs: number;
}

type Event = { at: number; what: 'kill' | 'massacre' | 'stop' };

/** One pool, one oracle, and the processes that work on both. */
export class Round {
  readonly #settings: RoundSettings;
  readonly #disturbances: Disturbances;
  readonly #random: Prng;
  readonly #oracle: OracleFile;
  readonly #crew: Crewman[] = [];
  /** All children ever started, to be killed at the end. */
  readonly #children = new Set<ChildProcess>();
  readonly #stalls: StallMeter;
  #kills = 0;
  #suicides = 0;
  #stops = 0;
  /** Whether a dead worker has left memory behind. */
  #leaky = false;

  private constructor(settings: RoundSettings, disturbances: Disturbances) {
    this.#settings = settings;
    this.#disturbances = disturbances;
    this.#random = Prng.fromSeed(settings.seed).fork(7);
    this.#oracle = OracleFile.create(settings.oracle, settings.shape);
    this.#stalls = new StallMeter(disturbances.stallMs);
  }

  /** Runs one round and removes all traces of it. Throws a RoundFailure. */
  static async run(settings: RoundSettings, disturbances: Disturbances): Promise<RoundReport> {
    const round = new Round(settings, disturbances);
    try {
      await round.#work();
      return await round.#finish();
    } finally {
      await round.#clear();
    }
  }

  async #work(): Promise<void> {
    for (let row = 0; row < this.#settings.shape.rows; row++) this.#crew[row] = this.#hire(row, 1);
    const events = this.#schedule();
    for (;;) {
      await sleep(POLL_MS);
      await this.#attend();
      if (this.#crew.every(({ child }) => child.exitCode === 0)) return;
      if (events.length > 0 && this.#operations() >= events[0].at) {
        await this.#disturb(events.shift() as Event);
      }
    }
  }

  #operations(): number {
    return this.#oracle.values.total(ROW.heartbeat);
  }

  #schedule(): Event[] {
    const { kills, massacres, stops } = this.#disturbances;
    const all = this.#settings.operations * this.#settings.shape.rows;
    const at = () => Math.floor(all * (0.02 + 0.9 * this.#random.nextDouble()));
    const some = (count: number, what: Event['what']) =>
      Array.from({ length: count }, () => ({ at: at(), what }));
    return [...some(kills, 'kill'), ...some(massacres, 'massacre'), ...some(stops, 'stop')].sort(
      (a, b) => a.at - b.at,
    );
  }

  /** Replaces workers that killed themselves; complains about those that failed or are stuck. */
  async #attend(): Promise<void> {
    for (const { row, child, killed } of this.#crew) {
      if (child.exitCode !== null && child.exitCode !== 0) throw await this.#failure(row);
      if (child.signalCode === null) continue;
      const suicide = child.signalCode === 'SIGKILL' && this.#settings.suicideEvery > 0;
      if (!killed && !suicide) throw await this.#failure(row);
      if (!killed) this.#suicides++;
      await this.#replace(row);
    }
    for (const man of this.#crew) this.#watch(man);
  }

  #watch({ row, incarnation, child, startedAt, stoppedMs }: Crewman): void {
    const { values } = this.#oracle;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const isNew = values.row(row, ROW.incarnation) !== incarnation;
    const state = isNew ? STARTING : values.row(row, ROW.state);
    if (state === STARTING) {
      // Time during which the worker was stopped, or waited for a processor, does not count.
      const idleMs = stoppedMs + (child.pid === undefined ? 0 : waitedMs(child.pid));
      if (performance.now() - startedAt - idleMs < this.#disturbances.startMs) return;
      throw new RoundFailure(`row ${row} does not start`);
    }
    if (state !== RUNNING || child.pid === undefined) return;
    const stall = this.#stalls.look(child.pid, values.row(row, ROW.heartbeat));
    if (stall <= this.#disturbances.stallMs) return;
    const doing = KINDS[values.row(row, ROW.doing) - 1] ?? 'nothing';
    const key = values.row(row, ROW.doingKey);
    throw new RoundFailure(`row ${row} is stuck for ${stall} ms in ${doing}, last key ${key}`);
  }

  async #disturb({ what }: Event): Promise<void> {
    if (what === 'massacre') {
      for (const man of this.#crew) this.#kill(man);
      await Promise.all(this.#crew.map(({ exited }) => exited));
      for (const { row } of this.#crew) await this.#replace(row);
      return;
    }
    const victim = this.#crew[this.#random.below(this.#crew.length)];
    if (victim.child.exitCode !== null || victim.child.signalCode !== null) return;
    if (what === 'stop') return await this.#stop(victim);
    this.#kill(victim);
    await victim.exited;
    await this.#replace(victim.row);
  }

  #kill(man: Crewman): void {
    if (man.child.exitCode !== null || man.child.signalCode !== null) return;
    man.killed = true;
    this.#kills++;
    man.child.kill('SIGKILL');
  }

  /** Stops a worker at a random point until the others have made progress, then continues it. */
  async #stop(victim: Crewman): Promise<void> {
    const { values } = this.#oracle;
    this.#stops++;
    values.fullAllowed = true;
    const stoppedAt = performance.now();
    victim.child.kill('SIGSTOP');
    await this.#others(victim.row, 500 + this.#random.below(3000), STOPPED_MS);
    if (this.#random.below(4) === 0) this.#kill(victim);
    else victim.child.kill('SIGCONT');
    victim.stoppedMs += performance.now() - stoppedAt;
    this.#stalls.forget(victim.child.pid);
    // Memory is reused again only after every worker has passed a few quiescent points.
    await this.#others(-1, OPERATIONS_AFTER_STOP);
    values.fullAllowed = this.#leaky;
  }

  /** Waits until every other worker that is not done has completed `operations` more. */
  async #others(
    except: number,
    operations: number,
    withinMs = Number.POSITIVE_INFINITY,
  ): Promise<void> {
    const { values } = this.#oracle;
    const until = performance.now() + withinMs;
    const goals = this.#crew.map(({ row }) => values.row(row, ROW.heartbeat) + operations);
    const reached = ({ row, child }: Crewman) =>
      row === except ||
      child.exitCode === 0 ||
      values.row(row, ROW.heartbeat) >= Math.min(goals[row], this.#settings.operations);
    while (performance.now() < until && !this.#crew.every(reached)) {
      await sleep(POLL_MS);
      for (const { row, child } of this.#crew) {
        if (child.exitCode !== null && child.exitCode !== 0) throw await this.#failure(row);
        if (child.signalCode !== null) await this.#replace(row);
        if (row !== except) this.#watch(this.#crew[row]);
      }
    }
  }

  #hire(row: number, incarnation: number, role: WorkOrder['role'] = 'work'): Crewman {
    const script = new URL(`./worker${extname(fileURLToPath(import.meta.url))}`, import.meta.url);
    const order: WorkOrder = { role, settings: this.#settings, row, incarnation };
    const [command, ...words] = this.#settings.alone
      ? [...ALONE, process.execPath]
      : [process.execPath];
    const child = spawn(
      command,
      [
        ...words,
        ...process.execArgv.filter(isLoader),
        fileURLToPath(script),
        '--torture-order',
        JSON.stringify(order),
      ],
      { stdio: ['ignore', 'pipe', 'pipe'] },
    );
    this.#children.add(child);
    const man: Crewman = {
      row,
      incarnation,
      child,
      errors: '',
      output: '',
      exited: once(child, 'close').then(() => {}),
      killed: false,
      startedAt: performance.now(),
      stoppedMs: 0,
    };
    child.stderr?.on('data', (text) => {
      man.errors += text;
    });
    child.stdout?.on('data', (text) => {
      man.output += text;
    });
    return man;
  }

  async #replace(row: number): Promise<void> {
    const { exited, incarnation } = this.#crew[row];
    await exited;
    this.#crew[row] = this.#hire(row, incarnation + 1);
    if (this.#disturbances.strict) return;
    this.#leaky = true;
    this.#oracle.values.fullAllowed = true;
  }

  /** After the first failure the other workers stop; their output goes into the report. */
  async #failure(row: number): Promise<RoundFailure> {
    this.#oracle.values.stop();
    await Promise.race([Promise.all(this.#crew.map(({ exited }) => exited)), sleep(2000)]);
    const { child, errors } = this.#crew[row];
    const others = this.#crew.filter((man) => man.row !== row).map((man) => man.errors);
    return new RoundFailure(
      [`row ${row} ended (code ${child.exitCode}, signal ${child.signalCode}):`, errors, ...others]
        .concat(this.#postMortem())
        .filter((text) => text !== '')
        .join('\n'),
    );
  }

  /** What the pool looks like after a failure. */
  #postMortem(): string {
    try {
      const { blocks, leftover, problems } = checkSync(this.#settings.url);
      const { chunks, clients, stores } = inspectSync(this.#settings.url);
      const held = clients.map(({ name, pid, claimed, waiting }) => ({
        name,
        pid,
        claimed,
        waiting,
      }));
      const state = JSON.stringify({ blocks, leftover, chunks, held, stores });
      return `afterwards: ${state}, problems: ${problems.slice(0, 10).join('; ') || 'none'}`;
    } catch (error) {
      return `afterwards: ${(error as Error).message}`;
    }
  }

  /** A new process attaches and verifies everything. */
  async #finish(): Promise<RoundReport> {
    const verifier = this.#hire(0, 0, 'verify');
    await verifier.exited;
    if (verifier.child.exitCode !== 0) {
      throw new RoundFailure(`verification (code ${verifier.child.exitCode}): ${verifier.errors}`);
    }
    // No worker exists any more. A remaining row means that a worker's death was not noticed.
    const left = inspectSync(this.#settings.url).clients.filter(({ self }) => !self);
    if (left.length > 0) throw new RoundFailure(`rows are left: ${JSON.stringify(left)}`);
    const { values } = this.#oracle;
    const verdict = JSON.parse(verifier.output) as Verdict;
    const kinds = KINDS.map((kind, i) => [kind, values.total(ROW.kinds + i)] as const);
    return {
      operations: this.#operations(),
      byKind: Object.fromEntries(kinds),
      kills: this.#kills + this.#suicides,
      suicides: this.#suicides,
      stops: this.#stops,
      splits: verdict.subtables - 1,
      poolFull: values.total(ROW.poolFull),
      repeated: values.total(ROW.repeated),
      longestStallMs: this.#stalls.longest,
      verdict,
    };
  }

  async #clear(): Promise<void> {
    for (const child of this.#children) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const closed = once(child, 'close');
      child.kill('SIGKILL');
      await closed;
    }
    this.#oracle.destroy();
    try {
      destroySync(this.#settings.url, { force: true });
    } catch {
      // It was never created.
    }
  }
}

function isLoader(argument: string, i: number, all: readonly string[]): boolean {
  return (
    /^--(import|loader|require)/.test(argument) ||
    /^--(import|loader|require)$/.test(all[i - 1] ?? '')
  );
}

/**
 * How long a worker that could run completes no operation. Time in which it waits for a processor
 * or is stopped does not count.
 */
class StallMeter {
  longest = 0;
  readonly #tolerated: number;
  readonly #last = new Map<number, { beats: number; now: number; waited: number }>();

  constructor(tolerated: number) {
    this.#tolerated = tolerated;
  }

  look(pid: number, beats: number): number {
    const waited = waitedMs(pid);
    const now = performance.now();
    const last = this.#last.get(pid);
    if (last === undefined || last.beats !== beats) {
      this.#last.set(pid, { beats, now, waited });
      return 0;
    }
    const stall = Math.round(now - last.now - (waited - last.waited));
    if (stall > this.longest) this.longest = stall;
    return Math.min(stall, this.#tolerated + 1);
  }

  forget(pid: number | undefined): void {
    if (pid !== undefined) this.#last.delete(pid);
  }
}

/** Milliseconds that the main thread has waited for a processor. */
function waitedMs(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'latin1').split(' ')[1]) / 1e6;
  } catch {
    return 0;
  }
}
