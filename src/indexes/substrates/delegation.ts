import { StepwellError } from '../../errors.ts';
import { HEADER_BYTES } from '../../records/layout.ts';
import { Batch, type Operation, Scratch } from '../../verbs/index.ts';
import type { Condition, Outcome } from '../contract.ts';
import type { Request } from './request.ts';

/**
 * Polls after which an operation stops waiting for another one, which its caller may have
 * abandoned.
 */
const POLLS_MAX = 1000;
/**
 * The same for a write that another operation has taken over: if it went alone it could happen
 * twice.
 */
const TAKEN_POLLS_MAX = 10_000_000;
/** Errors that promise that nothing was done: each follower makes an attempt of its own. */
const HARMLESS: ReadonlySet<string> = new Set(['SW_POOL_FULL', 'SW_INDEX_FULL', 'SW_CONTENTION']);

/** A caller's write, with the sealed record in its request. */
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
  /** Whether an operation on the key is running: later ones queue. */
  busy: boolean;
  /** Searches that have queued; the next search answers all of them. */
  searches: Ticket<R>[];
  /** Writes, removals and modifications that wait for their turn. */
  writes: Ticket<R>[];
}

interface Ticket<R extends Request> {
  request: R;
  /** A write that can be combined with others. */
  write?: PlannedWrite<R>;
  /**
   * leads: it may run now. taken: another operation performs it, so it must wait. served: it has
   * its answer. failed: the operation that had taken it failed. gone: it has stopped waiting.
   */
  state: 'waiting' | 'leads' | 'taken' | 'served' | 'failed' | 'gone';
  found: boolean;
  error?: unknown;
}

/**
 * The local lock table (read delegation and write combining, section 3.2) keeps one client's
 * concurrent operations on a key from racing each other to the pool. One search leads, and its
 * answer serves all searches that queued before its first READ. A later search cannot use that
 * answer, which may be older than the search. One write leads and performs all queued writes;
 * removals and modifications take turns. Correctness does not depend on the lock: an operation that
 * has waited too long, and that no other has taken over, proceeds alone.
 */
export class LockTable<R extends SharingRequest<R>> {
  readonly #lanes = new Map<number, Lane<R>[]>();
  /** Spare batches: each waiting operation needs one of its own. */
  readonly #idle: Batch[] = [];
  /** For pauses, which need no local memory. */
  readonly #words = new Scratch(8);

  /** Searches through the lock table; `search` runs a single search. */
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

  /** Writes together with the writes that wait; `perform` sets the outcomes of a group. */
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

  /** Runs a removal or modification when its turn comes. */
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

  /**
   * Lets the next operation run: first searches that a failed leader did not answer, then writes.
   */
  #release(request: R, lane: Lane<R>, followers: Ticket<R>[]): void {
    const unserved = followers.filter(({ state }) => state === 'waiting');
    lane.searches = [...unserved, ...lane.searches.filter(({ state }) => state === 'waiting')];
    lane.writes = lane.writes.filter(({ state }) => state === 'waiting');
    const next = lane.searches.shift() ?? lane.writes.shift();
    // The lane stays busy, so that no operation can slip in before the next one runs.
    if (next) next.state = 'leads';
    else this.#forget(request, lane);
  }

  *#wait(ticket: Ticket<R>): Operation<void> {
    // Not the request's batch: an operation that has taken the ticket uses that one.
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

/** Takes all waiting writes that can be combined; they must not proceed alone from now on. */
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
  return new StepwellError('SW_CONTENTION', 'the operation that performs this write is stuck');
}

/** Gives a follower what its leader has found: the record's first block and its slot. */
function serve<R extends SharingRequest<R>>(follower: Ticket<R>, leader: R, found: boolean): void {
  if (follower.state !== 'waiting') return;
  follower.state = 'served';
  follower.found = found;
  if (found) follower.request.takeFound(leader);
}
