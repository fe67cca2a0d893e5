import { StepwellError } from '../../errors.ts';
import { HEADER_BYTES } from '../../records/layout.ts';
import { Batch, type Operation, Scratch } from '../../verbs/index.ts';
import type { Condition, Outcome } from '../contract.ts';
import type { Request } from './request.ts';

/** Polls after which an operation stops waiting for another one, which may have been abandoned. */
const POLLS_MAX = 1000;
/** Polls of one that another has taken over: alone it would be done twice. */
const TAKEN_POLLS_MAX = 10_000_000;
/** Errors that promise that nothing was done: each follower makes an attempt of its own. */
const HARMLESS: ReadonlySet<string> = new Set(['SW_POOL_FULL', 'SW_INDEX_FULL', 'SW_CONTENTION']);

/** A write of one caller, whose record stands sealed in its request. */
export interface PlannedWrite<R extends Request> {
  readonly request: R;
  readonly condition: Condition;
  readonly expected: number;
  /** Set when the write has taken effect, or been refused. */
  outcome?: Outcome;
}

/** A request that can take over what another one of the same key has found. */
export interface SharingRequest<R> extends Request {
  takeFound(from: R): void;
}

/** Operations of this client on one key. */
interface Lane<R extends Request> {
  key: Uint8Array;
  /** Whether an operation of the key has posted its READs: a later search waits for the next. */
  busy: boolean;
  /** Searches that have queued since, to be served by one READ of the next. */
  searches: Ticket<R>[];
  /** Writes, removals and modifications that wait for their turn. */
  writes: Ticket<R>[];
}

interface Ticket<R extends Request> {
  request: R;
  /** A write that can be merged with others. */
  write?: PlannedWrite<R>;
  /**
   * Leads: its turn has come. Taken: another does it, and it must wait. Served: it has its answer.
   * Failed: the operation that had taken it failed. Gone: it waits no longer.
   */
  state: 'waiting' | 'leads' | 'taken' | 'served' | 'failed' | 'gone';
  found: boolean;
  error?: unknown;
}

/**
 * The local lock table (read delegation and write combining, section 3.2) keeps one client's
 * concurrent operations on a key from racing each other to the pool. One search leads, and its
 * answer serves all searches that queued before its first READ. A later search cannot use that
 * answer, which would be older than its question. One write leads and performs all queued writes;
 * removals and modifications take turns. The lock is a courtesy within one client: an operation
 * that has waited too long, and that no other has taken over, proceeds alone.
 */
export class LockTable<R extends SharingRequest<R>> {
  readonly #lanes = new Map<number, Lane<R>[]>();
  /** Batches of operations that have waited: one of its own for each that waits now. */
  readonly #idle: Batch[] = [];
  /** For pauses, which have no local data. */
  readonly #words = new Scratch(8);

  /** A search through the lock table; `search` runs one as if alone. */
  *search(request: R, search: (request: R) => Operation<boolean>): Operation<boolean> {
    const lane = this.#laneOf(request);
    if (lane.busy) {
      const ticket: Ticket<R> = { request, state: 'waiting', found: false };
      lane.searches.push(ticket);
      yield* this.#wait(ticket);
      if (ticket.state === 'served') return ticket.found;
      if (ticket.state === 'gone') return yield* search(request);
    }
    lane.busy = true;
    const followers = lane.searches.splice(0);
    try {
      const found = yield* search(request);
      for (const follower of followers) serve(follower, request, found);
      return found;
    } finally {
      this.#release(request, lane, followers);
    }
  }

  /** A write, which is merged with those that wait; `perform` sets the outcomes of a group. */
  *write(
    write: PlannedWrite<R>,
    perform: (group: readonly PlannedWrite<R>[]) => Operation<void>,
  ): Operation<Outcome> {
    const { request } = write;
    const lane = this.#laneOf(request);
    if (lane.busy) {
      const ticket: Ticket<R> = { request, write, state: 'waiting', found: false };
      lane.writes.push(ticket);
      yield* this.#wait(ticket);
      if (ticket.state === 'failed') throw ticket.error;
      if (ticket.state === 'gone') yield* perform([write]);
      if (ticket.state !== 'leads') return write.outcome as Outcome;
    }
    lane.busy = true;
    const followers = takeWrites(lane);
    try {
      yield* perform([write, ...followers.map((ticket) => ticket.write as PlannedWrite<R>)]);
      return write.outcome as Outcome;
    } catch (error) {
      const harmless = error instanceof StepwellError && HARMLESS.has(error.code);
      for (const follower of followers) {
        if (harmless) follower.state = 'waiting';
        follower.error = error;
      }
      throw error;
    } finally {
      for (const follower of followers) end(follower);
      lane.writes.unshift(...followers);
      this.#release(request, lane, []);
    }
  }

  /** A removal or modification in its turn. */
  *inTurn<T>(request: R, change: () => Operation<T>): Operation<T> {
    const lane = this.#laneOf(request);
    if (lane.busy) {
      const ticket: Ticket<R> = { request, state: 'waiting', found: false };
      lane.writes.push(ticket);
      yield* this.#wait(ticket);
      if (ticket.state === 'gone') return yield* change();
    }
    lane.busy = true;
    try {
      return yield* change();
    } finally {
      this.#release(request, lane, []);
    }
  }

  /** Searches that were not served, because their leader failed, and then writes go on. */
  #release(request: R, lane: Lane<R>, followers: Ticket<R>[]): void {
    const unserved = followers.filter(({ state }) => state === 'waiting');
    lane.searches = [...unserved, ...lane.searches.filter(({ state }) => state === 'waiting')];
    lane.writes = lane.writes.filter(({ state }) => state === 'waiting');
    const next = lane.searches.shift() ?? lane.writes.shift();
    // Stays busy: no operation may slip in between the release and the next one's turn.
    if (next) next.state = 'leads';
    else this.#forget(request, lane);
  }

  *#wait(ticket: Ticket<R>): Operation<void> {
    // Not the request's: the operation that has taken the ticket works with that one.
    const batch = this.#idle.pop() ?? new Batch();
    for (let poll = 0; ticket.state === 'waiting' || ticket.state === 'taken'; poll++) {
      if (ticket.state === 'waiting' && poll >= POLLS_MAX) ticket.state = 'gone';
      else if (poll === TAKEN_POLLS_MAX) throw neverEnded();
      else yield batch.clear().pause(0, this.#words);
    }
    this.#idle.push(batch);
  }

  #laneOf(request: R): Lane<R> {
    const name = nameOf(request);
    const key = keyOf(request);
    let lanes = this.#lanes.get(name);
    if (lanes === undefined) {
      lanes = [];
      this.#lanes.set(name, lanes);
    }
    let lane = lanes.find((each) => Buffer.compare(each.key, key) === 0);
    if (lane === undefined) {
      lane = { key: key.slice(), busy: false, searches: [], writes: [] };
      lanes.push(lane);
    }
    return lane;
  }

  #forget(request: R, lane: Lane<R>): void {
    lane.busy = false;
    const name = nameOf(request);
    const rest = (this.#lanes.get(name) ?? []).filter((each) => each !== lane);
    if (rest.length === 0) this.#lanes.delete(name);
    else this.#lanes.set(name, rest);
  }
}

function nameOf({ hash }: Request): number {
  return (hash.h1 >>> 0) * 2 ** 20 + (hash.h2 & 0xfffff);
}

function keyOf({ outgoing, keyBytes }: Request): Uint8Array {
  return outgoing.u8.subarray(HEADER_BYTES, HEADER_BYTES + keyBytes);
}

/** All waiting writes that can be merged, which must not go alone from now on. */
function takeWrites<R extends Request>(lane: Lane<R>): Ticket<R>[] {
  const taken = lane.writes.filter(({ state, write }) => state === 'waiting' && write);
  lane.writes = lane.writes.filter((ticket) => !taken.includes(ticket));
  for (const ticket of taken) ticket.state = 'taken';
  return taken;
}

/** A write that has an outcome was done, even if its leader failed afterwards. */
function end(follower: Ticket<Request>): void {
  if (follower.write?.outcome !== undefined) {
    follower.state = 'served';
  } else if (follower.state === 'taken') {
    follower.state = 'failed';
    follower.error ??= neverEnded();
  }
}

function neverEnded(): StepwellError {
  return new StepwellError('SW_CONTENTION', 'the operation that this one was merged with is stuck');
}

/** Gives a follower what its leader has found: the record's head, and the slot that names it. */
function serve<R extends SharingRequest<R>>(follower: Ticket<R>, leader: R, found: boolean): void {
  if (follower.state !== 'waiting') return;
  follower.state = 'served';
  follower.found = found;
  if (found) follower.request.takeFound(leader);
}
