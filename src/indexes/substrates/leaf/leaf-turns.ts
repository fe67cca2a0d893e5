import { StepwellError } from '../../../errors.ts';
import { type Address, Batch, type Operation, Scratch } from '../../../verbs/index.ts';

/** Polls before a waiting operation may give up, however slow its client is. */
const LOOKS_MIN = 100_000;

/**
 * SW_POOL_FULL of an insertion that waited behind one that could not split their leaf. This one has
 * not tried itself; when it is called again, the other may have made room.
 */
export class FullAhead extends StepwellError {
  constructor(cause: StepwellError) {
    super('SW_POOL_FULL', cause.message, { cause });
  }
}

const NONE: never[] = [];

/** An operation's place in the queue of its client's operations that want to lock a leaf. */
export interface LeafTurn {
  /** Whether it may insert an item, for which a full leaf has to be split. */
  inserts: boolean;
  /** The leaf; NULL_ADDRESS if the operation is not in the queue. */
  turnAt: Address;
  hasTurn: boolean;
  /** Whether another operation has made this one's change along with its own: see `combine.ts`. */
  turnDone: boolean;
  /**
   * The error with which the operation must end: another one found the leaf's lock stuck, or failed
   * while it made this one's change.
   */
  turnRefused: unknown;
}

/**
 * Operations of one client that lock the same leaf take turns before they try it, as in the local
 * lock table of Sherman, on which CHIME builds. Over a network hundreds are in flight: without
 * turns they would take the lock from the one that splits the leaf, and hold all intent slots while
 * they wait. No protocol depends on the turns.
 */
export class LeafTurns<T extends LeafTurn = LeafTurn> {
  /** In order of arrival. */
  readonly #queue: T[] = [];
  #given = 0;
  readonly #words = new Scratch(8);
  readonly #now: () => number;
  readonly #limitMs: () => number;

  /** `limitMs`: an operation fails when no turn has ended for this long. */
  constructor(now: () => number, limitMs: () => number) {
    this.#now = now;
    this.#limitMs = limitMs;
  }

  /**
   * Waits for the turn at a leaf, or until another operation has made this one's change
   * (`turnDone`). Returns whether it had to wait. Raises SW_CONTENTION.
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
      // Not if another operation is making this one's change, which may yet happen.
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

  /** Operations that wait for the leaf of this one, in order. */
  waitingBehind({ turnAt }: T): T[] {
    if (this.#queue.length === 1) return NONE;
    return this.#queue.filter((one) => one.turnAt === turnAt && !one.hasTurn);
  }

  /** Takes an operation out of the queue; another one sets its `turnDone` or `turnRefused`. */
  takeOver(turn: T): void {
    this.#queue.splice(this.#queue.indexOf(turn), 1);
    turn.turnAt = 0;
  }

  /** The leaf's lock is stuck: fails all waiting operations, which would find the same. */
  refuse(turn: T, error: StepwellError): void {
    this.#refuse(turn, error, () => true);
  }

  /** The leaf and the pool are full: fails all waiting insertions, which would find the same. */
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
  return new StepwellError('SW_CONTENTION', 'operations of this client on a leaf are stuck');
}
