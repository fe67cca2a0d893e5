import type { WaitOptions } from './waiting.ts';

/** Options of `queue`. */
export interface QueueOptions {
  /**
   * Milliseconds after which a worker that has not extended its lease loses the job. Default
   * 30000.
   */
  leaseMs?: number;
  /** Whether leases are extended by themselves as long as the event loop turns. Default true. */
  renew?: boolean;
  /** The longest pause in milliseconds between two looks of a worker that waits. Default 5. */
  everyMs?: number;
}

/** Options of `add`. */
export interface AddOptions {
  /** Milliseconds until it may be taken. Default 0. */
  delayMs?: number;
  /** A whole number of 0..255; jobs of a higher priority are taken first. Default 0. */
  priority?: number;
  /** While the queue has a job with this key, another one is not added. Default: no key. */
  key?: string;
  /** How often it is handed out before it becomes a dead letter. Default 3. */
  attempts?: number;
  /**
   * Milliseconds from the first failure to the next attempt, which each failure doubles, up to a
   * day. Default 1000.
   */
  backoffMs?: number;
}

/** The outcome of `add`. */
export interface AddedJob {
  readonly id: string;
  /** False if the queue has a job with this key; `id` is then that job's. */
  readonly added: boolean;
}

/** A job that this client holds, until it is completed, fails or is lost. */
export interface Job<T> {
  readonly id: string;
  readonly data: T;
  readonly priority: number;
  /**
   * How often the job has been taken; 1 for the first time. It is a fencing token: if two workers
   * believe that they hold the job, the one with the higher number does.
   */
  readonly attempt: number;
  /** What the last failure said, if there was one. */
  readonly error: string | undefined;
  /** Aborted, with SW_LEASE_LOST as reason, when this client finds that it has lost the job. */
  readonly signal: AbortSignal;
  /** Holds the job for `leaseMs` from now on; false if it is lost. */
  extend(leaseMs?: number): Promise<boolean>;
  /** Removes the job for ever. True for one worker only; false if the job is lost. */
  complete(): Promise<boolean>;
  /**
   * Gives the job back, for another attempt after its backoff or after `retryMs` milliseconds. The
   * last attempt makes it a dead letter. `lost` if another worker may have it.
   */
  fail(error: unknown, options?: { retryMs?: number }): Promise<'retry' | 'dead' | 'lost'>;
}

/** A job whose attempts have all failed. */
export interface DeadLetter<T> {
  readonly id: string;
  readonly data: T;
  /** What the last failure said. */
  readonly error: string | undefined;
  /** How often it was taken. */
  readonly attempts: number;
  /** Since when, in milliseconds since 1970. */
  readonly time: number;
  /**
   * Puts it back, due now, with as many attempts as at first and without its unique key; false if
   * another client was first.
   */
  retry(): Promise<boolean>;
  /** Removes it for ever; false if another client was first. */
  remove(): Promise<boolean>;
}

/** Jobs by what they wait for. */
export interface JobCounts {
  /** Due, and not held. */
  waiting: number;
  /** Due later, also after a failure. */
  delayed: number;
  /** Held by a worker whose lease has not run out. */
  active: number;
  dead: number;
}

/** A queue of jobs in a store, which all clients of the store share. */
export interface Queue<T> {
  readonly name: string;
  /**
   * Adds a job. Data are whatever JSON can express.
   *
   * @throws StepwellError SW_INVALID_VALUE for data that JSON cannot express, SW_POOL_FULL.
   */
  add(data: T, options?: AddOptions): Promise<AddedJob>;
  /**
   * Waits for a job and takes it: of those that are due the one with the highest priority, of these
   * the one that has been due longest. When several workers take at the same time, one may get a
   * job that comes a few places later.
   *
   * @throws StepwellError SW_TIMEOUT after `waitMs`, SW_ABORTED.
   */
  take(options?: WaitOptions): Promise<Job<T>>;
  /** As `take`: waits for at least one job, and takes up to `count` (at most 1000). */
  takeMany(count: number, options?: WaitOptions): Promise<Job<T>[]>;
  /** As `takeMany`, without waiting: empty if there is no job. */
  tryTake(count?: number): Promise<Job<T>[]>;
  /**
   * Counts the jobs by reading all of them. Exact if no client changes the queue meanwhile; else
   * off by at most the changes that were made meanwhile.
   */
  counts(): Promise<JobCounts>;
  /** The oldest dead letters, at most `limit` (100). */
  deadLetters(options?: { limit?: number }): Promise<DeadLetter<T>[]>;
}
