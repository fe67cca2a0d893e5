import { invariant, StepwellError } from '../../../errors.ts';
import { EPOCHS_TO_RIPEN } from '../../../pool/clients/limbo.ts';
import { FullForNow } from '../../../pool/clients/reclamation.ts';
import {
  type Address,
  Batch,
  CAS_BYTES,
  type Operation,
  Scratch,
  setWord,
  swapped,
} from '../../../verbs/index.ts';
import { PAIR } from '../protocol/geometry.ts';
import type { PairAccess } from '../protocol/pair-access.ts';
import { readState } from '../protocol/pair-state.ts';
import { blockOfTurn, emptyTurnAfter, unitsOfRecord } from '../protocol/turn.ts';
import type { Waiting } from '../protocol/waiting.ts';
import type { Word } from '../protocol/word.ts';
import { ATTEMPTS_MAX, type TurnOptions, type TurnResult, TurnWorker } from './turn-worker.ts';

/**
 * The hash server of a pair: a state machine without a state of its own. All that it knows lies in
 * the pool. So the holder of the lease is the server from one turn to the next, and a holder that
 * dies or is stopped between any two words leaves what the next one needs.
 *
 * A turn (section 4.2) takes what has been posted, reads the buckets and keys that this concerns,
 * and decides. One CAS makes the decisions those of the pair, if nothing has been decided since;
 * then any server carries them out (commit.ts).
 */
export class HashServer {
  readonly #pair: PairAccess;
  /**
   * Several operations of one client can be in a turn: one that was overtaken learns that from its
   * CAS, and one that has given the lease back goes on after others.
   */
  readonly #idle: TurnWorker[] = [];

  constructor(pair: PairAccess) {
    this.#pair = pair;
  }

  /**
   * Answers what waits, in one turn after the other, as long as `goesOn` says; returns the last.
   * When nothing waited there is no answer, and the lease is kept.
   */
  *serve(
    options: TurnOptions,
    goesOn: (result: TurnResult) => Operation<boolean>,
  ): Operation<TurnResult> {
    const { turnsMax = Number.POSITIVE_INFINITY } = options;
    const worker = this.#idle.pop() ?? new TurnWorker(this.#pair);
    try {
      let result = yield* worker.turn(options, undefined, turnsMax === 1);
      for (let turns = 2; yield* goesOn(result); turns++) {
        if (turns > turnsMax) break;
        result = yield* worker.turn(options, result.next, turns === turnsMax);
      }
      return result;
    } finally {
      this.#idle.push(worker);
    }
  }

  /**
   * Whether this client has memory of its own for the records of turns, however full the pool is: a
   * chunk that it keeps. Turns take its blocks when there are no others, and get them back as
   * epochs pass. A server process calls this before it takes the lease: a server without such
   * memory could not even delete anything.
   */
  *isProvided(): Operation<boolean> {
    const units = unitsOfRecord(this.#pair.geometry.turnMax);
    const block = yield* this.#pair.allocate(units);
    if (block !== undefined) this.#pair.discard(block, units);
    return block !== undefined;
  }

  /** Completes what a server before has decided; returns the last turn. */
  *recover(): Operation<Word> {
    const worker = this.#idle.pop() ?? new TurnWorker(this.#pair);
    try {
      return (yield* worker.look()).turn;
    } finally {
      this.#idle.push(worker);
    }
  }

  /**
   * As the holder of the lease, before anything but a turn: a server that was overtaken before, and
   * does not know it, cannot decide anything any more.
   */
  *forestall(): Operation<void> {
    for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
      const turn = yield* this.recover();
      if (yield* this.forestallAfter(turn)) return;
    }
    throw new StepwellError('SW_CONTENTION', 'servers that were overtaken go on and on');
  }

  /** The same after `turn`, which is done. False if another turn has been decided since. */
  *forestallAfter(turn: Word): Operation<boolean> {
    const { base } = this.#pair.geometry;
    const next = emptyTurnAfter(turn);
    const words = new Scratch(2 * CAS_BYTES);
    for (const at of [0, CAS_BYTES]) {
      setWord(words, at, turn.low, turn.high);
      setWord(words, at + 8, next.low, next.high);
    }
    yield new Batch().cas(base + PAIR.turn, words, 0).cas(base + PAIR.done, words, CAS_BYTES);
    return swapped(words, 0);
  }

  /**
   * Completes what was begun, if the holder of the lease does not. That needs no lease: a client
   * that is stopped here holds up no other.
   */
  *complete(waiting?: Waiting): Operation<boolean> {
    const { hashLease } = this.#pair;
    const held = yield* hashLease.holder();
    const isOwn = held.serves && held.client === hashLease.own;
    if (!isOwn && !(yield* hashLease.isToBeHad(waiting?.seen(held) ?? held))) return false;
    yield* this.recover();
    return true;
  }

  /** A committed sequence that is no less than what had begun when it was called. */
  *committedFromNow(): Operation<number> {
    const { begun } = yield* readState(this.#pair);
    const { log } = this.#pair.geometry.shape;
    const complete = (waiting: Waiting) => this.complete(waiting);
    const what = 'it does not complete its turn';
    return yield* this.#pair.waitFor('hash', what, function* ({ committed, holder }, waiting) {
      if (committed >= begun) return committed;
      // A server begins one turn at a time, and the log keeps two.
      const isNear = begun - committed <= log;
      invariant(isNear, `change ${begun} has begun, and ${committed} are committed`);
      // The hash server is at it, or it died: then its turn is completed here.
      if (holder.client === 0 || waiting.isTime) yield* complete(waiting);
    });
  }
}

/**
 * Places for records of turns in the memory of the pair: each client has a few. So a client that
 * owns no block, and finds the pool full, can still delete.
 *
 * Only the client of the row writes there. It uses a place again when no client can hold a turn
 * word that names it, as with a retired block: three epochs after it saw the last turn with another
 * record. A place that an earlier client of the row left counts as seen at this client's first
 * look: the earlier client is gone, and starts no further turn.
 */
export class OwnRecords {
  readonly #pair: PairAccess;
  /** By place that no operation has: the epoch in which no turn had it any more. */
  readonly #freeSince = new Map<Address, number>();
  readonly #taken = new Set<Address>();

  constructor(pair: PairAccess) {
    this.#pair = pair;
  }

  /**
   * A place for the record of one turn. Raises FullForNow when each has to wait for epochs, which
   * pass when this client's operations have ended.
   */
  *take(): Operation<Address> {
    const { geometry, pool } = this.#pair;
    const named = blockOfTurn((yield* readState(this.#pair)).turn).address;
    const epoch = pool.reclamation.announced;
    for (const place of geometry.ownRecords(pool.membership.id)) {
      if (place === named || this.#taken.has(place)) continue;
      const since = this.#freeSince.get(place);
      if (since === undefined) this.#freeSince.set(place, epoch);
      else if (since + EPOCHS_TO_RIPEN <= epoch) {
        this.#freeSince.delete(place);
        this.#taken.add(place);
        return place;
      }
    }
    throw new FullForNow(epoch + EPOCHS_TO_RIPEN);
  }

  /** The operation has ended; `isUsed` tells whether a turn may have the place. */
  give(place: Address, isUsed: boolean): void {
    const isFree = this.#freeSince.has(place);
    invariant(!isFree, 'a place for the record of a turn is given back twice');
    this.#taken.delete(place);
    if (!isUsed) this.#freeSince.set(place, Number.NEGATIVE_INFINITY);
  }
}
