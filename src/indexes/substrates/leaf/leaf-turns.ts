import { StepwellError } from '../../../errors.ts';
import { type Address, Batch, type Operation, Scratch } from '../../../verbs/index.ts';

/** Polls before a waiting operation may give up, however slow its client is. */
const LOOKS_MIN = 100_000;

/**
 * SW_POOL_FULL of an insertion that waited behind one that could not split their leaf, and that did
 * not look itself: the other may have made room when it comes again.
 */
export class FullAhead extends StepwellError {
  constructor(cause: StepwellError) {
    super('SW_POOL_FULL', cause.message, { cause });
  }
}

const NONE: never[] = [];

/** An operation's place among those of its client that want to lock one leaf. */
export interface LeafTurn {
  /** Whether it may insert an item, for which a full leaf has to be split. */
  inserts: boolean;
  /** The leaf, or NULL_ADDRESS when the operation wants none. */
  turnAt: Address;
  hasTurn: boolean;
  /** Whether the operation whose turn it was has made this one's change too: see `combine.ts`. */
  turnDone: boolean;
  /**
   * Why the operation need not wait: the one before it found the leaf's lock stuck, or has failed
   * with this one's change.
   */
  turnRefused: unknown;
}

/**
 * Operations of one client that lock the same leaf take turns before they try it, as in the local
 * lock table of Sherman, on which CHIME builds. Over a network hundreds are in flight: without
 * turns they would take the lock from the one that splits the leaf, and hold all intent slots
 * while they wait. The turn protects nothing in the pool.
 */
export class LeafTurns<T extends LeafTurn = LeafTurn> {
  /** In the order in which they came. */
  readonly #queue: T[] = [];
  #given = 0;
  readonly #words = new Scratch(8);
  readonly #now: () => number;
  readonly #limitMs: () => number;

  /** The limit: how long no operation of the client gives up its turn before one fails. */
  constructor(now: () => number, limitMs: () => number) {
    this.#now = now;
    this.#limitMs = limitMs;
  }

  /**
   * Waits for the turn at a leaf, or for another operation to make this one's change: `turnDone`.
   * Whether that took time. Raises SW_CONTENTION.
   */
  *take(turn: T, leaf: Address): Operation<boolean> {
    turn.turnAt = leaf;
    turn.turnDone = false;
    turn.turnRefused = undefined;
    turn.hasTurn = this.#queue.length === 0 || !this.#queue.some(({ turnAt }) => turnAt === leaf);
    this.#queue.push(turn);
    if (turn.hasTurn) return false;
    const batch = new Batch();
    let given = this.#given;
    let since = this.#now();
    for (let looks = 1; !turn.hasTurn && !turn.turnDone; looks++) {
      if (turn.turnRefused !== undefined) throw turn.turnRefused;
      if (this.#given !== given) [looks, since] = [1, this.#now()];
      given = this.#given;
      const isLong = looks > LOOKS_MIN && this.#now() - since > this.#limitMs();
      // A change that another operation is making may yet happen.
      if (isLong && this.#queue.includes(turn)) throw stuck();
      yield batch.clear().pause(0, this.#words);
    }
    return true;
  }

  /** Gives up the turn, or stops waiting for it. */
  give(turn: T): void {
    const at = this.#queue.indexOf(turn);
    if (at < 0) return;
    if (at === this.#queue.length - 1) this.#queue.pop();
    else this.#queue.splice(at, 1);
    const { turnAt, hasTurn } = turn;
    turn.turnAt = 0;
    turn.hasTurn = false;
    if (!hasTurn) return;
    this.#given++;
    if (this.#queue.length === 0) return;
    const next = this.#queue.find((one) => one.turnAt === turnAt);
    if (next !== undefined) next.hasTurn = true;
  }

  /** Operations that wait for the leaf of the one whose turn it is, in their order. */
  waitingBehind({ turnAt }: T): T[] {
    if (this.#queue.length === 1) return NONE;
    return this.#queue.filter((one) => one.turnAt === turnAt && !one.hasTurn);
  }

  /** Takes an operation out of the queue; another one sets its `turnDone` or `turnRefused`. */
  takeOver(turn: T): void {
    this.#queue.splice(this.#queue.indexOf(turn), 1);
    turn.turnAt = 0;
  }

  /** The leaf's lock is stuck: operations that wait would find the same, one after the other. */
  refuse(turn: T, error: StepwellError): void {
    this.#refuse(turn, error, () => true);
  }

  /** The leaf is full, and the pool too: insertions that wait would find the same. */
  refuseInsertions(turn: T, error: StepwellError): void {
    this.#refuse(turn, new FullAhead(error), ({ inserts }) => inserts);
  }

  #refuse({ turnAt, hasTurn }: T, error: StepwellError, concerns: (turn: T) => boolean): void {
    if (!hasTurn) return;
    for (let i = this.#queue.length - 1; i >= 0; i--) {
      const one = this.#queue[i];
      if (one.turnAt !== turnAt || one.hasTurn || !concerns(one)) continue;
      one.turnRefused = error;
      this.#queue.splice(i, 1);
    }
  }
}

function stuck(): StepwellError {
  return new StepwellError('SW_CONTENTION', 'operations of this client on a leaf do not go on');
}
