import { StepwellError } from '../errors.ts';
import { checkOptions } from '../store/arguments.ts';
import { checkPositive } from './host.ts';
import type { JobTable } from './job-table.ts';
import { checkTime, type JobState } from './jobs.ts';
import type { Job } from './queue-api.ts';
import { TIMER_MAX_MS } from './waiting.ts';

/** How many times in its term a lease is extended. */
const RENEWALS = 3;

/** A held job over its record. */
export class HeldJob<T> implements Job<T> {
  readonly id: string;
  readonly data: T;
  readonly priority: number;
  readonly attempt: number;
  readonly error: string | undefined;
  readonly #table: JobTable;
  readonly #held: HeldJobs;
  readonly #name: string;
  #lost: StepwellError | undefined;
  #ended: AbortController | undefined;

  constructor(table: JobTable, held: HeldJobs, name: string, id: string, state: JobState) {
    this.#table = table;
    this.#held = held;
    this.#name = name;
    this.id = id;
    this.data = JSON.parse(state.data);
    this.priority = state.priority;
    this.attempt = state.taken;
    this.error = state.error;
  }

  get signal(): AbortSignal {
    this.#ended ??= new AbortController();
    if (this.#lost !== undefined) this.#ended.abort(this.#lost);
    return this.#ended.signal;
  }

  async extend(leaseMs: number = this.#held.leaseMs): Promise<boolean> {
    checkPositive('leaseMs', leaseMs);
    const asked = performance.now();
    const isHeld = await this.#table.extend(this.#name, this.attempt, leaseMs);
    if (isHeld) this.#held.extended(this, asked + leaseMs);
    else this.lose('its lease was over');
    return isHeld;
  }

  async complete(): Promise<boolean> {
    this.#held.delete(this);
    const isDone = await this.#table.complete(this.#name, this.attempt);
    if (!isDone) this.lose('its lease was over');
    return isDone;
  }

  async fail(
    error: unknown,
    options: { retryMs?: number } = {},
  ): Promise<'retry' | 'dead' | 'lost'> {
    checkOptions(options, ['retryMs']);
    const { retryMs } = options;
    if (retryMs !== undefined) checkTime('retryMs', retryMs);
    this.#held.delete(this);
    const failure = { token: this.attempt, error: messageOf(error), retryMs };
    const to = await this.#table.fail(this.#name, failure);
    if (to === undefined) this.lose('its lease was over');
    if (to === undefined) return 'lost';
    return this.#table.places.read(to).isDead ? 'dead' : 'retry';
  }

  /** Ends the lease at once, so that another worker need not wait for its end. */
  async giveBack(why: string): Promise<void> {
    this.lose(why);
    await this.#table.extend(this.#name, this.attempt, 0);
  }

  /** Gives the job back that no caller has seen. */
  async giveBackUnseen(): Promise<void> {
    this.lose('its wait was ended');
    await this.#table.return(this.#name, this.attempt);
  }

  lose(why: string): void {
    this.#held.delete(this);
    if (this.#lost !== undefined) return;
    const message = `the job ${this.id} (attempt ${this.attempt}) is lost: ${why}`;
    this.#lost = new StepwellError('SW_LEASE_LOST', message);
    this.#ended?.abort(this.#lost);
  }
}

/** The jobs that a queue object holds: one timer extends their leases. */
export class HeldJobs {
  readonly leaseMs: number;
  readonly #renews: boolean;
  readonly #beforeClose: (listener: () => Promise<void>) => () => void;
  /** With the time at which the lease ends, by a clock that never jumps. */
  readonly #jobs = new Map<HeldJob<unknown>, number>();
  #timer: NodeJS.Timeout | undefined;
  #forgetStore = () => {};

  constructor(
    leaseMs: number,
    renews: boolean,
    beforeClose: (listener: () => Promise<void>) => () => void,
  ) {
    this.leaseMs = leaseMs;
    this.#renews = renews;
    this.#beforeClose = beforeClose;
  }

  add(job: HeldJob<unknown>, asked: number): void {
    this.#jobs.set(job, asked + this.leaseMs);
    if (this.#timer !== undefined) return;
    this.#forgetStore = this.#beforeClose(() => this.#end());
    const everyMs = Math.min(TIMER_MAX_MS, Math.max(1, this.leaseMs / RENEWALS));
    this.#timer = setInterval(() => this.#look(), everyMs).unref();
  }

  extended(job: HeldJob<unknown>, end: number): void {
    if (this.#jobs.has(job)) this.#jobs.set(job, end);
  }

  delete(job: HeldJob<unknown>): void {
    this.#jobs.delete(job);
  }

  /** If it fails, the leases run out. */
  async giveBackUnseen(jobs: readonly Job<unknown>[]): Promise<void> {
    await Promise.allSettled([...jobs].map((job) => (job as HeldJob<unknown>).giveBackUnseen()));
  }

  /** Extends the leases of which a third is over, and ends those whose time has run out. */
  #look(): void {
    const now = performance.now();
    if (this.#jobs.size === 0) this.#stop();
    for (const [job, end] of this.#jobs) {
      if (end <= now) job.lose('its lease ran out');
      else if (this.#renews && end - now < this.leaseMs * (1 - 0.5 / RENEWALS)) {
        // If it fails, the next look tries again until the lease has run out.
        job.extend().catch(() => {});
      }
    }
  }

  #stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#forgetStore();
  }

  async #end(): Promise<void> {
    this.#stop();
    const jobs = [...this.#jobs.keys()];
    await Promise.allSettled(jobs.map((job) => job.giveBack('its store was closed')));
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}
