import { randomBytes } from 'node:crypto';
import { StepwellError } from '../errors.ts';
import { unlessAborted } from '../store/abortable.ts';
import { checkFlag, checkOptions, invalid, shown } from '../store/arguments.ts';
import type { NamedState } from '../store/internal-calls.ts';
import { HeldJob, HeldJobs } from './held-job.ts';
import { type AnyStore, checkName, checkPositive, promised } from './host.ts';
import { JobTable } from './job-table.ts';
import { checkTime, type JobState, jobIn, PRIORITY_MAX, TIME_MAX } from './jobs.ts';
import type {
  AddedJob,
  AddOptions,
  DeadLetter,
  Job,
  JobCounts,
  Queue,
  QueueOptions,
} from './queue-api.ts';
import { Waiting, type WaitOptions } from './waiting.ts';

const LEASE_MS = 30_000;
const EVERY_MS = 5;
const ATTEMPTS = 3;
const BACKOFF_MS = 1000;
/** How often a queue asks the client table whether holders are gone. */
const GONE_EVERY_MS = 1000;
/** Records that a scan reads at a time: at first, and for counts. */
const PAGE = 32;
const LONG_PAGE = 256;
/** Jobs that `takeMany` takes at most. */
const TAKE_MAX = 1000;
const DEAD_LETTERS = 100;
/** A client adds fewer jobs than so many digits of base 36 count. */
const COUNT_DIGITS = 8;

/**
 * The queue of that name in the store. Its jobs are hidden from walks and scans. All its calls
 * raise SW_UNSUPPORTED if the store's index has no order (`chime` and `hstore` have one), or if the
 * store has a bound. In a full pool no job is lost: `complete` and the removal of dead letters need
 * no memory, all other changes raise SW_POOL_FULL.
 *
 * One worker at a time holds a job, until it completes the job, lets it fail, dies, or fails to
 * extend its lease. A worker that has died is replaced at the latest when its lease is over. So a
 * job may be begun more than once, and is completed once. Machines' clocks must differ by less than
 * the lease.
 *
 * @throws StepwellError SW_INVALID_ARGUMENT.
 */
export function queue<T = unknown>(
  store: AnyStore,
  name: string,
  options: QueueOptions = {},
): Queue<T> {
  checkName(name);
  checkOptions(options, ['leaseMs', 'renew', 'everyMs']);
  const { leaseMs = LEASE_MS, renew = true, everyMs = EVERY_MS } = options;
  checkPositive('leaseMs', leaseMs);
  checkPositive('everyMs', everyMs);
  checkFlag('renew', renew);
  const host = promised(store);
  const held = new HeldJobs(leaseMs, renew, (listener) => host.beforeClose(listener));
  return new StoreQueue<T>(new JobTable(host, name), name, held, leaseMs, everyMs);
}

/** What a look for jobs came to. */
interface Look<T> {
  readonly jobs: Job<T>[];
  /** Jobs that other clients took first, or that this client had to move. */
  missed: number;
  /** Errors of calls of the store. */
  readonly failures: unknown[];
  /** Milliseconds until a job may be free that was not; Infinity if none is known. */
  soonestMs: number;
}

/** The queue over its records. */
class StoreQueue<T> implements Queue<T> {
  readonly name: string;
  readonly #table: JobTable;
  readonly #held: HeldJobs;
  readonly #leaseMs: number;
  readonly #everyMs: number;
  /** Ids of this queue: jobs that are due in the same millisecond come in the order of adding. */
  readonly #idEnd = randomBytes(9).toString('base64url');
  #added = 0;
  #asksGoneAt = 0;

  constructor(table: JobTable, name: string, held: HeldJobs, leaseMs: number, everyMs: number) {
    this.#table = table;
    this.name = name;
    this.#held = held;
    this.#leaseMs = leaseMs;
    this.#everyMs = everyMs;
  }

  async add(data: T, options: AddOptions = {}): Promise<AddedJob> {
    const { delayMs, key, ...kept } = addOptions(options);
    const text = jsonOf(data);
    const number = (this.#added++).toString(36).padStart(COUNT_DIGITS, '0');
    const id = number + this.#idEnd;
    const table = this.#table;
    const due = (await table.now()) + delayMs;
    if (due > TIME_MAX) throw invalid(`delayMs leads past the year 5138: ${shown(delayMs)}`);
    const name = table.places.job(kept.priority, due, id, 0);
    const job: JobState = { phase: 'waiting', data: text, ...kept, last: kept.attempts, taken: 0 };
    if (key === undefined) {
      await table.insert(name, job);
      return { id, added: true };
    }
    return table.insertUnique(name, job, key);
  }

  async take(options: WaitOptions = {}): Promise<Job<T>> {
    return (await this.takeMany(1, options))[0];
  }

  async takeMany(count: number, options: WaitOptions = {}): Promise<Job<T>[]> {
    checkCount(count);
    checkOptions(options, ['waitMs', 'signal']);
    const waiting = new Waiting(`a job of the queue ${this.name}`, options);
    const { signal } = options;
    return unlessAborted('the wait', signal, async () => {
      for (;;) {
        const { jobs, soonestMs } = await this.#look(count);
        // The caller never gets these jobs.
        if (jobs.length > 0 && signal?.aborted) await this.#held.giveBackUnseen(jobs);
        if (jobs.length > 0) return jobs;
        await waiting.pause(Math.min(soonestMs, this.#everyMs));
      }
    });
  }

  async tryTake(count = 1): Promise<Job<T>[]> {
    checkCount(count);
    return (await this.#look(count)).jobs;
  }

  /** Takes the first free jobs. If it has only met jobs that others took, it looks again. */
  async #look(count: number): Promise<Look<T>> {
    for (;;) {
      const look: Look<T> = { jobs: [], missed: 0, failures: [], soonestMs: 0 };
      // Jobs that it has taken must reach the caller, whatever happens after that.
      await this.#lookOnce(count, look).catch((error) => look.failures.push(error));
      if (look.jobs.length > 0) return look;
      if (look.failures.length > 0) throw look.failures[0];
      if (look.missed === 0) return look;
    }
  }

  /** Reads the jobs in their order, and takes free ones. */
  async #lookOnce(count: number, look: Look<T>): Promise<void> {
    const { places } = this.#table;
    const { to } = places.range('job');
    const gone = this.#goneCheck();
    let { from } = places.range('job');
    let [soonestAt, limit] = [Number.POSITIVE_INFINITY, count > PAGE ? LONG_PAGE : PAGE];
    for (;;) {
      const { now, states } = await this.#table.read(from, to, limit);
      const free: string[] = [];
      let later: number | undefined;
      for (const one of states) {
        const { priority, time } = places.read(one.name);
        if (time > now) {
          soonestAt = Math.min(soonestAt, time);
          later = priority;
          break;
        }
        const until = heldUntil(one, now);
        if (until === undefined || (await gone(one))) free.push(one.name);
        else soonestAt = Math.min(soonestAt, until);
      }
      await this.#takeSome(free, count, look);
      look.soonestMs = soonestAt - now;
      if (look.jobs.length >= count) return;
      // The rest of this priority is due later.
      if (later !== undefined) from = places.behind(later);
      else if (states.length < limit) return;
      else from = `${states[states.length - 1].name}\0`;
      limit = LONG_PAGE;
    }
  }

  /**
   * Takes free jobs in their order. After jobs that other clients have just taken it skips as many:
   * else all clients would try to take the same jobs again and again.
   */
  async #takeSome(free: readonly string[], count: number, look: Look<T>): Promise<void> {
    for (let i = 0; i < free.length && look.jobs.length < count; ) {
      const some = free.slice(i, i + count - look.jobs.length);
      const outcomes = await Promise.allSettled(some.map((name) => this.#takeOne(name)));
      for (const outcome of outcomes) {
        // If the pool has no memory for this job: others may need less, and free some.
        if (outcome.status === 'rejected') look.failures.push(outcome.reason);
        else if (outcome.value === 'changed') look.missed++;
        else if (outcome.value !== 'adding') look.jobs.push(outcome.value);
      }
      i += some.length + look.missed;
    }
  }

  async #takeOne(name: string): Promise<Job<T> | 'changed' | 'adding'> {
    const asked = performance.now();
    const state = await this.#table.take(name, this.#leaseMs);
    if (typeof state === 'string') return state;
    const { id } = this.#table.places.read(name);
    const job = new HeldJob<T>(this.#table, this.#held, name, id, state);
    this.#held.add(job, asked);
    return job;
  }

  /** Once a second, a look asks about each holder that it meets; else it believes the leases. */
  #goneCheck(): (one: NamedState) => Promise<boolean> {
    if (performance.now() < this.#asksGoneAt) return async () => false;
    this.#asksGoneAt = performance.now() + GONE_EVERY_MS;
    const gone = new Map<number, boolean>();
    return async ({ name, state }) => {
      const { holder = 0 } = jobIn(state, name) ?? {};
      const known = gone.get(holder) ?? (await this.#table.isHolderGone(name, holder));
      gone.set(holder, known);
      return known;
    };
  }

  async counts(): Promise<JobCounts> {
    const counts: JobCounts = { waiting: 0, delayed: 0, active: 0, dead: 0 };
    for (const which of ['job', 'dead'] as const) {
      for await (const { name, job, now } of this.#walk(which)) {
        // A moving job counts where it goes.
        if (job.phase === 'arriving') continue;
        if (job.phase === 'adding' && !(await this.#table.hasKey(name, job))) continue;
        const place = this.#table.places.read(job.to ?? name);
        if (place.isDead) counts.dead++;
        else if (job.phase === 'held' && (job.until ?? 0) > now) counts.active++;
        else counts[place.time > now ? 'delayed' : 'waiting']++;
      }
    }
    return counts;
  }

  async deadLetters(options: { limit?: number } = {}): Promise<DeadLetter<T>[]> {
    checkOptions(options, ['limit']);
    const { limit = DEAD_LETTERS } = options;
    checkPositive('limit', limit, true);
    const table = this.#table;
    const letters: DeadLetter<T>[] = [];
    for await (const { name, job } of this.#walk('dead')) {
      if (job.phase !== 'waiting') {
        await table.continue(name, job);
        continue;
      }
      const { id, time } = table.places.read(name);
      const { error, taken: attempts } = job;
      const [retry, remove] = [() => table.revive(name), () => table.remove(name)];
      letters.push({ id, data: JSON.parse(job.data), error, attempts, time, retry, remove });
      if (letters.length === limit) break;
    }
    return letters;
  }

  async *#walk(which: 'job' | 'dead') {
    let { from, to } = this.#table.places.range(which);
    for (;;) {
      const { now, states } = await this.#table.read(from, to, LONG_PAGE);
      for (const { name, state } of states) {
        const job = jobIn(state, name);
        if (job !== undefined) yield { name, job, now };
      }
      if (states.length < LONG_PAGE) return;
      from = `${states[states.length - 1].name}\0`;
    }
  }
}

/** Until when the job is held, if it is and this time has not come. */
function heldUntil({ name, state }: NamedState, now: number): number | undefined {
  const { phase, until = 0 } = jobIn(state, name) ?? {};
  return phase === 'held' && until > now ? until : undefined;
}

type CheckedAddOptions = Required<Omit<AddOptions, 'key'>> & { key: string | undefined };

/** Raises SW_INVALID_ARGUMENT. */
function addOptions(options: AddOptions): CheckedAddOptions {
  checkOptions(options, ['delayMs', 'priority', 'key', 'attempts', 'backoffMs']);
  const { delayMs = 0, priority = 0, key, attempts = ATTEMPTS, backoffMs = BACKOFF_MS } = options;
  checkTime('delayMs', delayMs);
  checkTime('backoffMs', backoffMs);
  checkPositive('attempts', attempts, true);
  const isFine = Number.isSafeInteger(priority) && priority >= 0 && priority <= PRIORITY_MAX;
  if (!isFine) {
    throw invalid(`priority is a whole number of 0..${PRIORITY_MAX}: ${shown(priority)}`);
  }
  if (key !== undefined && typeof key !== 'string') {
    throw invalid(`key is a string: ${shown(key)}`);
  }
  return { delayMs, priority, key, attempts, backoffMs };
}

function checkCount(count: unknown): void {
  if (Number.isSafeInteger(count) && Number(count) >= 1 && Number(count) <= TAKE_MAX) return;
  throw invalid(`the count of jobs is a whole number of 1..${TAKE_MAX}: ${shown(count)}`);
}

/** Raises SW_INVALID_VALUE. */
function jsonOf(data: unknown): string {
  let cause: unknown;
  try {
    const text = JSON.stringify(data);
    if (text !== undefined) return text;
  } catch (error) {
    cause = error;
  }
  const why = `the data of a job are what JSON can express, not ${shown(data)}`;
  throw new StepwellError('SW_INVALID_VALUE', why, { cause });
}
