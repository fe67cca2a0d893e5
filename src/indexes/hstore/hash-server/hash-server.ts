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
 * The hash server of a pair. All of its state is in the pool, so each turn can have another server:
 * the holder of the lease. A holder that dies or is stopped between any two words leaves what the
 * next one needs.
 *
 * A turn (section 4.2) takes the posted requests, reads their buckets and keys, and decides. One
 * CAS commits the decisions, if no other turn was decided meanwhile; then any server carries them
 * out (commit.ts).
 */
export class HashServer {
  readonly #pair: PairAccess;
  /**
   * Several, because several operations of one client can be in a turn: one that was overtaken
   * learns it only from its CAS, and one that has released the lease may still be at work.
   */
  readonly #idle: TurnWorker[] = [];

  constructor(pair: PairAccess) {
    this.#pair = pair;
  }

  /**
   * Answers waiting requests, turn after turn, while `goesOn` says so; returns the last turn. A
   * turn without requests answers nothing, and keeps the lease.
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
   * Whether this client has its own memory for the records of turns: blocks of a chunk that it
   * keeps even if the pool gets full. Turns reuse them as epochs pass. A server process calls this
   * before it takes the lease: a server without such memory could not even delete anything.
   */
  *isProvided(): Operation<boolean> {
    const units = unitsOfRecord(this.#pair.geometry.turnMax);
    const block = yield* this.#pair.allocate(units);
    if (block !== undefined) this.#pair.discard(block, units);
    return block !== undefined;
  }

  /** Completes the turn that an earlier server has decided; returns the last turn. */
  *recover(): Operation<Word> {
    const worker = this.#idle.pop() ?? new TurnWorker(this.#pair);
    try {
      return (yield* worker.look()).turn;
    } finally {
      this.#idle.push(worker);
    }
  }

  /**
   * Called by the holder of the lease before it does anything but a turn. Afterwards a server that
   * was overtaken, and does not know it, can no longer decide a turn.
   */
  *forestall(): Operation<void> {
    for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
      const turn = yield* this.recover();
      if (yield* this.forestallAfter(turn)) return;
    }
    throw new StepwellError('SW_CONTENTION', 'servers that were overtaken keep deciding turns');
  }

  /** As `forestall`, after `turn`, which is done. False if another turn was decided since. */
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
   * Completes the turn that was begun, if the holder of the lease cannot. It takes no lease, so a
   * client that is stopped here holds up no other.
   */
  *complete(waiting?: Waiting): Operation<boolean> {
    const { hashLease } = this.#pair;
    const held = yield* hashLease.holder();
    const isOwn = hashLease.isServer(held);
    if (!isOwn && !(yield* hashLease.isToBeHad(waiting?.seen(held) ?? held))) return false;
    yield* this.recover();
    return true;
  }

  /** Waits until all that had begun at the call is committed; returns the committed sequence. */
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
      // The hash server is still at work, or has died: then this client completes its turn.
      if (holder.client === 0 || waiting.isTime) yield* complete(waiting);
    });
  }
}

/**
 * Each client has a few places for records of turns in the pair's memory. So a client without a
 * block can still delete in a full pool.
 *
 * Only the client of the row writes to its places. As with a retired block, it reuses a place when
 * no client can still hold a turn word that names it: three epochs after it has seen another record
 * in the last turn. For places that an earlier client of the row has left, that time begins at this
 * client's first look, because the earlier client is gone and starts no further turn.
 */
export class OwnRecords {
  readonly #pair: PairAccess;
  /** For each place that no operation uses: the epoch since which no turn names it. */
  readonly #freeSince = new Map<Address, number>();
  readonly #taken = new Set<Address>();

  constructor(pair: PairAccess) {
    this.#pair = pair;
  }

  /**
   * Takes a place for the record of one turn. Raises FullForNow if all must wait for epochs, which
   * can pass only after this client's operations have ended.
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

  /** Called when the operation has ended. `isUsed`: whether a turn may have used the place. */
  give(place: Address, isUsed: boolean): void {
    const isFree = this.#freeSince.has(place);
    invariant(!isFree, 'a place for the record of a turn is given back twice');
    this.#taken.delete(place);
    if (!isUsed) this.#freeSince.set(place, Number.NEGATIVE_INFINITY);
  }
}
