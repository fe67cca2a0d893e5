import { HEADER_BYTES } from '../../records/layout.ts';
import type { Operation } from '../../verbs/index.ts';
import type { ShardRequest } from './table.ts';

/** Polls after which an operation stops waiting for another one, which may have been abandoned. */
const POLLS_MAX = 1000;

/** Operations of this client on one key. */
interface Lane {
  key: Uint8Array;
  /** Whether an operation of the key has posted its READs: who comes now waits for the next. */
  busy: boolean;
  /** Searches that have queued since, to be served by one READ of the next. */
  searches: Ticket[];
  /** Writes that wait for their turn. */
  writes: Ticket[];
}

interface Ticket {
  request: ShardRequest;
  /** Leads: its turn has come. Served: it has its answer. Gone: it waits no longer. */
  state: 'waiting' | 'leads' | 'served' | 'gone';
  found: boolean;
}

/**
 * The local lock table (read delegation and write queueing, section 3.2): operations in flight of
 * one client on one key do not race each other to the pool. Of searches one leads and its answer
 * serves all that had queued before it posted its first READ, never one that came later: that would
 * be an answer from before its question. Writes take turns, so that none makes the other's CAS
 * fail. The lock is a courtesy within one client: whoever has waited for too long goes alone.
 */
export class LockTable {
  readonly #lanes = new Map<number, Lane[]>();

  /** A search through the lock table; `search` runs one as if alone. */
  *search(
    request: ShardRequest,
    search: (request: ShardRequest) => Operation<boolean>,
  ): Operation<boolean> {
    const lane = this.#laneOf(request);
    if (lane.busy) {
      const ticket: Ticket = { request, state: 'waiting', found: false };
      lane.searches.push(ticket);
      yield* wait(ticket);
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

  /** A write, removal or modification in its turn. */
  *inTurn<T>(request: ShardRequest, write: () => Operation<T>): Operation<T> {
    const lane = this.#laneOf(request);
    if (lane.busy) {
      const ticket: Ticket = { request, state: 'waiting', found: false };
      lane.writes.push(ticket);
      yield* wait(ticket);
      if (ticket.state === 'gone') return yield* write();
    }
    lane.busy = true;
    try {
      return yield* write();
    } finally {
      this.#release(request, lane, []);
    }
  }

  /** Searches that were not served, because their leader failed, and then writes go on. */
  #release(request: ShardRequest, lane: Lane, followers: Ticket[]): void {
    const unserved = followers.filter(({ state }) => state === 'waiting');
    lane.searches = [...unserved, ...lane.searches.filter(({ state }) => state === 'waiting')];
    lane.writes = lane.writes.filter(({ state }) => state === 'waiting');
    const next = lane.searches.shift() ?? lane.writes.shift();
    // Stays busy: nobody may slip in between the release and the next one's turn.
    if (next) next.state = 'leads';
    else this.#forget(request, lane);
  }

  #laneOf(request: ShardRequest): Lane {
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

  #forget(request: ShardRequest, lane: Lane): void {
    lane.busy = false;
    const name = nameOf(request);
    const rest = (this.#lanes.get(name) ?? []).filter((each) => each !== lane);
    if (rest.length === 0) this.#lanes.delete(name);
    else this.#lanes.set(name, rest);
  }
}

function nameOf({ hash }: ShardRequest): number {
  return (hash.h1 >>> 0) * 2 ** 20 + (hash.h2 & 0xfffff);
}

function keyOf({ outgoing, keyBytes }: ShardRequest): Uint8Array {
  return outgoing.u8.subarray(HEADER_BYTES, HEADER_BYTES + keyBytes);
}

function* wait(ticket: Ticket): Operation<void> {
  const { request } = ticket;
  for (let poll = 0; ticket.state === 'waiting'; poll++) {
    if (poll === POLLS_MAX) ticket.state = 'gone';
    else yield request.batch.clear().pause(0, request.words);
  }
}

/** Gives a follower what its leader has found: the record's head, and the slot that names it. */
function serve(follower: Ticket, leader: ShardRequest, found: boolean): void {
  if (follower.state !== 'waiting') return;
  follower.state = 'served';
  follower.found = found;
  if (found) follower.request.takeFound(leader);
}
