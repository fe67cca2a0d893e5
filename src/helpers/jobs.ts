import { StepwellError } from '../errors.ts';
import { invalid, isRecord, shown } from '../store/arguments.ts';
import type { StateChange, StateLook } from '../store/internal-calls.ts';

/**
 * The states of a queue's jobs, and the steps between them. Each job is one record. Its name says
 * where the job stands, so a scan meets the jobs in the order in which they are to be taken:
 *
 *   queue:NAME:job:PRIORITY:DUE:ID.N   to be taken from DUE on; a higher priority sorts first
 *   queue:NAME:dead:TIME:ID.N          a dead letter since TIME
 *   queue:NAME:key:KEY                 the job that has this unique key, and where it stands
 *
 * N is how often the job had been taken when it came to stand there. A job is never in the same
 * phase of the same place twice, so no name is used again.
 *
 *              take         complete
 *   waiting ─────────▶ held ──────────▶ (removed)
 *      ▲    adding ──▶  │
 *      │                └─ fail ──▶ moving ── the job has arrived elsewhere ──▶ (removed)
 *   arriving
 *
 * Every arrow is one compare-and-set of one record. A client that dies has made the whole change or
 * none.
 *
 *   add       The adder inserts a waiting job; with a unique key see below.
 *   take      Any client, if the job is waiting, or if its lease is over: its time has run out, or
 *             its holder is gone. `taken` counts up; it is the token of the new holder.
 *   extend, complete, fail    The holder whose token the job still has. Another client that has
 *             taken the job since has a higher token, so the late holder changes nothing. So a
 *             job is completed once.
 *   complete  removes the record, so it needs no memory and succeeds in a full pool.
 *   fail      starts a move, to a later time or to the dead letters. A client that would take a job
 *             for the last time plus one starts the move to the dead letters.
 *
 * A move from A to B changes two records. Any client that meets A in the phase moving, or B in the
 * phase arriving, continues the move:
 *
 *   1  arrive    Insert B, arriving, with a random `copy`. If B is arriving already, use its copy.
 *   2  choose    In A, set `copy` to that of B. The first client to do so decides.
 *   3            If the job has a unique key: let the key's record name B, or remove that record if
 *                B is a dead letter.
 *   4  confirm   If B is arriving with the chosen copy, it is waiting from now on.
 *   5  leave     Remove A.
 *   discard      Remove a B that is arriving, if A is absent or has chosen another copy.
 *
 * No job is lost: A stays until the chosen copy has been confirmed. No job is doubled: a client
 * that slept may insert B again after the job was taken and completed, but with a new copy. A has
 * chosen another one or is absent, both for ever, so that copy is never confirmed and the next
 * client that meets it discards it. A copy that A may still choose is never discarded.
 *
 * A unique key has a record that names the place of its job:
 *
 *   1  insert    The adder inserts the job in the phase adding. It is not in the queue yet.
 *   2  claim     The adder lets the key's record name the job: now it is in the queue. If the
 *                record names a job that is in the queue, the adder removes its own job instead. If
 *                it names a place without a job, that job is over, and the adder overwrites it.
 *
 * A client takes an adding job only after it has seen the key's record name the job. An adding job
 * that the record does not name is removed once its adder is gone, because no other client claims
 * the key for it. In a move, step 3 comes before step 4, so the record names B before a client can
 * take the job there. Step 3 also comes before step 5, so the place that the record names is empty
 * only after the job was completed. To complete a job removes the job first, then the key's record.
 *
 *   crash after      what is there             who goes on
 *   insert           an adding job             the next taker: removes it
 *   take             a held job                a taker, when the lease is over
 *   fail, 1 to 4     A moving, maybe B         the next client that meets A or B
 *   complete         a key without its job     the next adder of the key; until then it is a record
 *                                              of its key's length that is of no use
 */
export interface JobState {
  readonly phase: 'adding' | 'waiting' | 'held' | 'moving' | 'arriving';
  /** The caller's data, as JSON. */
  readonly data: string;
  readonly priority: number;
  /** How often it may be taken before it becomes a dead letter, and again from there on. */
  readonly attempts: number;
  /** The value of `taken` at which it becomes a dead letter. */
  readonly last: number;
  readonly backoffMs: number;
  readonly taken: number;
  readonly key?: string;
  /** What the last failure said. */
  readonly error?: string;
  /** The client that holds the job, or adds it. */
  readonly holder?: number;
  /** When the holder's lease ends. */
  readonly until?: number;
  /** The place to which a job is moving. */
  readonly to?: string;
  /** A moving job names the chosen copy, if there is one, and an arriving job itself. */
  readonly copy?: string;
  /** The place from which a job arrives. */
  readonly from?: string;
}

/** The record of a unique key: the job that has it, and where that job stands. */
export interface KeyState {
  readonly id: string;
  readonly place: string;
}

export const PRIORITY_MAX = 255;
/** The year 5138. A time has as many digits in a name. */
export const TIME_MAX = 99_999_999_999_999;
const TIME_DIGITS = String(TIME_MAX).length;
const PRIORITY_DIGITS = String(PRIORITY_MAX).length;
/** The longest pause between two attempts that doubling leads to. */
const BACKOFF_MAX_MS = 86_400_000;
/** An error's message is cut there. */
const ERROR_MAX = 1000;

/** Raises SW_INVALID_ARGUMENT. */
export function checkTime(name: string, ms: unknown): void {
  if (typeof ms === 'number' && ms >= 0 && ms <= TIME_MAX) return;
  throw invalid(`${name} is 0 or more, in milliseconds: ${shown(ms)}`);
}

/** Where a job stands, as its name says. */
export interface Place {
  readonly isDead: boolean;
  readonly priority: number;
  /** When it is due, or since when it is dead. */
  readonly time: number;
  readonly id: string;
}

/** The names of a queue's records. */
export class Places {
  readonly #prefix: string;

  constructor(queue: string) {
    this.#prefix = `queue:${queue.replaceAll('%', '%25').replaceAll(':', '%3A')}:`;
  }

  job(priority: number, due: number, id: string, taken: number): string {
    return `${this.ofPriority(priority)}${timeText(due)}:${id}.${taken}`;
  }

  dead(time: number, id: string, taken: number): string {
    return `${this.#prefix}dead:${timeText(time)}:${id}.${taken}`;
  }

  key(key: string): string {
    return `${this.#prefix}key:${key}`;
  }

  /** What the names of all jobs of a priority begin with. */
  ofPriority(priority: number): string {
    const rank = String(PRIORITY_MAX - priority).padStart(PRIORITY_DIGITS, '0');
    return `${this.#prefix}job:${rank}:`;
  }

  /** The first name of a range, and the first behind it: `;` comes after `:`. */
  range(which: 'job' | 'dead'): { from: string; to: string } {
    return { from: `${this.#prefix}${which}:`, to: `${this.#prefix}${which};` };
  }

  /** The first name behind all jobs of a priority. */
  behind(priority: number): string {
    return `${this.ofPriority(priority).slice(0, -1)};`;
  }

  /** Raises SW_UNDECODABLE. */
  read(name: string): Place {
    const parts = name.slice(this.#prefix.length).split(':');
    const isDead = parts[0] === 'dead';
    const [rank, time, place = ''] = isDead ? ['0', ...parts.slice(1)] : parts.slice(1);
    const [id, taken] = place.split('.');
    const words = [rank, time, taken].map(Number);
    const isFine = id !== '' && words.every((word) => Number.isSafeInteger(word) && word >= 0);
    if (!isFine || words[0] > PRIORITY_MAX) throw undecodable(name);
    return { isDead, priority: PRIORITY_MAX - words[0], time: words[1], id };
  }
}

function timeText(time: number): string {
  return String(Math.min(TIME_MAX, Math.max(0, Math.ceil(time)))).padStart(TIME_DIGITS, '0');
}

/** What a client has met at a place, after its step. */
export interface Met {
  /** Whether this client holds the job now. */
  readonly taken: boolean;
  readonly job: JobState | undefined;
}

export function insertJob(state: unknown, job: JobState): StateChange<boolean> {
  return state === undefined ? { result: true, next: job } : { result: false };
}

/**
 * Takes a job that is free, or begins to move it to the dead letters. `hasKey` says that the job's
 * key was seen to name it.
 */
export function takeJob(
  state: unknown,
  look: StateLook,
  name: string,
  places: Places,
  leaseMs: number,
  hasKey: boolean,
): StateChange<Met> {
  const job = jobIn(state, name);
  const isAdded = hasKey && job?.phase === 'adding';
  const mayTake = job !== undefined && (isAdded || isFree(job, look));
  if (!mayTake) return { result: { taken: false, job } };
  const { id } = places.read(name);
  if (job.taken >= job.last) {
    const to = places.dead(look.now, id, job.taken);
    const next = moving(job, to, 'the lease of the last attempt was over');
    return { result: { taken: false, job: next }, next };
  }
  const until = look.now + leaseMs;
  const next: JobState = {
    ...job,
    phase: 'held',
    taken: job.taken + 1,
    holder: look.self,
    until,
  };
  return { result: { taken: true, job: next }, next };
}

function isFree({ phase, until = 0, holder = 0 }: JobState, { now, isGone }: StateLook): boolean {
  return phase === 'waiting' || (phase === 'held' && (until <= now || isGone(holder)));
}

/** Whether the job is still the holder's, for another `leaseMs`; 0 gives it back. */
export function extendJob(
  state: unknown,
  look: StateLook,
  name: string,
  token: number,
  leaseMs: number,
): StateChange<boolean> {
  const job = heldJob(state, name, token);
  if (job === undefined) return { result: false };
  return { result: true, next: { ...job, until: look.now + leaseMs } };
}

/** Gives a job back that its holder has not begun; the attempt does not count. */
export function returnJob(
  state: unknown,
  look: StateLook,
  name: string,
  token: number,
): StateChange<boolean> {
  const job = heldJob(state, name, token);
  if (job === undefined) return { result: false };
  return { result: true, next: { ...job, until: look.now, last: job.last + 1 } };
}

/** The job, if the holder has completed it now. */
export function completeJob(
  state: unknown,
  name: string,
  token: number,
): StateChange<JobState | undefined> {
  const job = heldJob(state, name, token);
  return job === undefined ? { result: undefined } : { result: job, next: null };
}

export interface Failure {
  readonly token: number;
  readonly error: string;
  /** When to try again, in milliseconds from now; by default the backoff of the job. */
  readonly retryMs: number | undefined;
}

/** The job, if the holder has let it fail now: it is to move. */
export function failJob(
  state: unknown,
  look: StateLook,
  name: string,
  places: Places,
  { token, error, retryMs }: Failure,
): StateChange<JobState | undefined> {
  const job = heldJob(state, name, token);
  if (job === undefined) return { result: undefined };
  const { id } = places.read(name);
  const failed = job.taken - (job.last - job.attempts);
  const backoff = Math.min(job.backoffMs * 2 ** (failed - 1), BACKOFF_MAX_MS);
  const to =
    job.taken >= job.last
      ? places.dead(look.now, id, job.taken)
      : places.job(job.priority, look.now + (retryMs ?? backoff), id, job.taken);
  const next = moving(job, to, error);
  return { result: next, next };
}

/** The dead letter, if it is to move back to the jobs now. */
export function reviveJob(
  state: unknown,
  look: StateLook,
  name: string,
  places: Places,
): StateChange<JobState | undefined> {
  const job = jobIn(state, name);
  if (job?.phase !== 'waiting') return { result: undefined };
  const { id } = places.read(name);
  const to = places.job(job.priority, look.now, id, job.taken);
  const next: JobState = { ...job, phase: 'moving', to, last: job.taken + job.attempts };
  return { result: next, next };
}

function moving(job: JobState, to: string, error: string): JobState {
  return { ...withoutHold(job), phase: 'moving', to, error: error.slice(0, ERROR_MAX) };
}

function withoutHold({ holder: _, until: __, ...job }: JobState): JobState {
  return job;
}

/** Step 1 of a move, at B. The copy that is arriving there; undefined if the move is further on. */
export function arrive(
  state: unknown,
  name: string,
  from: string,
  job: JobState,
  isDead: boolean,
  copy: string,
): StateChange<string | undefined> {
  const found = jobIn(state, name);
  if (found === undefined) {
    const { to: _, key, ...rest } = job;
    const next: JobState = { ...rest, phase: 'arriving', from, copy };
    // A dead letter has no key.
    return { result: copy, next: isDead || key === undefined ? next : { ...next, key } };
  }
  const isArriving = found.phase === 'arriving' && found.from === from;
  return { result: isArriving ? found.copy : undefined };
}

/** Step 2, at A. The chosen copy; undefined if A is not moving any more. */
export function choose(
  state: unknown,
  name: string,
  copy: string | undefined,
): StateChange<string | undefined> {
  const job = jobIn(state, name);
  if (job?.phase !== 'moving') return { result: undefined };
  if (job.copy !== undefined || copy === undefined) return { result: job.copy };
  return { result: copy, next: { ...job, copy } };
}

/** Step 4, at B. */
export function confirm(state: unknown, name: string, copy: string): StateChange<boolean> {
  const job = jobIn(state, name);
  if (job?.phase !== 'arriving' || job.copy !== copy) return { result: false };
  const { copy: _, from: __, ...rest } = job;
  return { result: true, next: { ...rest, phase: 'waiting' } };
}

/** Removes an arriving job at B whose copy was not chosen. */
export function discard(state: unknown, name: string, copy: string): StateChange<boolean> {
  const job = jobIn(state, name);
  const isMeant = job?.phase === 'arriving' && job.copy === copy;
  return isMeant ? { result: true, next: null } : { result: false };
}

/** Step 5, at A; also removes an adding job and a dead letter. */
export function leave(
  state: unknown,
  name: string,
  phase: JobState['phase'],
): StateChange<boolean> {
  return jobIn(state, name)?.phase === phase ? { result: true, next: null } : { result: false };
}

/** Claims a unique key; the claim that there is after that. */
export function claimKey(state: unknown, name: string, claim: KeyState): StateChange<KeyState> {
  const found = keyIn(state, name);
  return found === undefined ? { result: claim, next: claim } : { result: found };
}

/** Claims the key of a job that is over. */
export function replaceKey(
  state: unknown,
  name: string,
  found: KeyState,
  claim: KeyState,
): StateChange<boolean> {
  const now = keyIn(state, name);
  if (now?.id !== found.id || now.place !== found.place) return { result: false };
  return { result: true, next: claim };
}

/** Step 3 of a move: the key's job stands elsewhere. */
export function moveKey(
  state: unknown,
  name: string,
  from: string,
  to: string,
): StateChange<boolean> {
  const found = keyIn(state, name);
  if (found?.place !== from) return { result: false };
  return { result: true, next: { ...found, place: to } };
}

/** Whether the key is that of the job at this place. */
export function keyNames(
  state: unknown,
  name: string,
  { id, place }: KeyState,
): StateChange<boolean> {
  const found = keyIn(state, name);
  return { result: found?.id === id && found.place === place };
}

/** Frees the key if it is that of the job. */
export function freeKey(state: unknown, name: string, id: string): StateChange<boolean> {
  return keyIn(state, name)?.id === id ? { result: true, next: null } : { result: false };
}

/** Whether the job is adding and its adder never claims its key any more. */
export function isAbandoned(state: unknown, look: StateLook, name: string): StateChange<boolean> {
  const job = jobIn(state, name);
  return { result: job?.phase === 'adding' && look.isGone(job.holder ?? 0) };
}

function heldJob(state: unknown, name: string, token: number): JobState | undefined {
  const job = jobIn(state, name);
  return job?.phase === 'held' && job.taken === token ? job : undefined;
}

const PHASES: readonly string[] = ['adding', 'waiting', 'held', 'moving', 'arriving'];

/** Raises SW_UNDECODABLE. */
export function jobIn(state: unknown, name: string): JobState | undefined {
  if (state === undefined) return undefined;
  const job = (isRecord(state) ? state : {}) as Partial<JobState>;
  const isCount = (word: unknown) => Number.isSafeInteger(word) && (word as number) >= 0;
  const isText = (word: unknown) => typeof word === 'string';
  const { phase, until = 0, holder = 0, backoffMs } = job;
  const isFine =
    PHASES.includes(phase ?? '') &&
    isText(job.data) &&
    [job.priority, job.attempts, job.last, job.taken].every(isCount) &&
    [backoffMs, until, holder].every(Number.isFinite) &&
    [job.key ?? '', job.error ?? '', job.copy ?? ''].every(isText) &&
    (phase !== 'adding' || isText(job.key)) &&
    (phase !== 'moving' || isText(job.to)) &&
    (phase !== 'arriving' || (isText(job.from) && isText(job.copy)));
  if (isFine) return job as JobState;
  throw undecodable(name);
}

/** Raises SW_UNDECODABLE. */
export function keyIn(state: unknown, name: string): KeyState | undefined {
  if (state === undefined) return undefined;
  const { id, place } = (isRecord(state) ? state : {}) as Partial<KeyState>;
  if (typeof id === 'string' && typeof place === 'string') return { id, place };
  throw undecodable(name);
}

function undecodable(name: string): StepwellError {
  return new StepwellError('SW_UNDECODABLE', `the record ${name} is none of a job queue's`);
}
