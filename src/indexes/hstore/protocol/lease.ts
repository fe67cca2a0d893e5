import { invariant } from '../../../errors.ts';
import { CLIENT_BITS, clientWord, isGone, rowOf } from '../../../pool/clients/client-word.ts';
import type { Membership } from '../../../pool/clients/membership.ts';
import { NETWORK_NAMESPACE } from '../../../pool/clients/thread-identity.ts';
import { control } from '../../../pool/control.ts';
import {
  type Address,
  Batch,
  highHalf,
  lowHalf,
  type Operation,
  Scratch,
} from '../../../verbs/index.ts';

const SERVES = 2 ** CLIENT_BITS;
const YIELDS = 2 * SERVES;
const TOKEN_SHIFT = CLIENT_BITS + 2;
/** Offset of the word that says whether primaries are elected, and its value if they are. */
const ELECTED_AT = 16;
const ELECTED = 0x64_65_74_63_65_6c_45n;

/** The holder of a lease. */
export interface Holding {
  /** 0: the lease is free. */
  readonly client: number;
  /** Whether it is a server process: it beats, and a client that waits too long may kill it. */
  readonly serves: boolean;
  /** Whether it may be overtaken while it lives: its verbs do no harm, however late. */
  readonly yields: boolean;
  /** The greatest fencing token of any primary; 0 when no coordination service elects them. */
  readonly token: number;
}

/** The holder, with the lease's word. */
export interface Holder extends Holding {
  /** As it was read, for a CAS. */
  readonly word: bigint;
  /** Whether it has made no progress for long enough to be overtaken. */
  readonly stands?: boolean;
}

export function holderIn(words: Scratch, at: number): Holder {
  return { ...holdingIn(words, at), word: BigInt.asUintN(64, words.i64[at >> 3]) };
}

/** As `holderIn`, without the BigInt `word`, which would make garbage in every turn. */
export function holdingIn(words: Scratch, at: number): Holding {
  const [low, high] = [lowHalf(words, at), highHalf(words, at)];
  return {
    client: low & (SERVES - 1),
    serves: (low & SERVES) !== 0,
    yields: (low & YIELDS) !== 0,
    token: (high >>> 0) * 2 ** (32 - TOKEN_SHIFT) + (low >>> TOKEN_SHIFT),
  };
}

function wordOf(client: number, serves: boolean, token: number): bigint {
  return BigInt(client + (serves ? SERVES : 0)) + (BigInt(token) << BigInt(TOKEN_SHIFT));
}

/**
 * A lease names the client that is the server of a role, in one word of the pool. A client takes it
 * by CAS if it is free, or if its holder can issue no more verbs. The word keeps the last primary's
 * token, so a process that was elected earlier, and has slept since, cannot take it. The next word
 * is the beat, which a server process counts up while it works.
 *
 *   client 28 | whether it is a server process 1 | whether it yields 1 | fencing token 34
 *   beat 64
 *   whether primaries are elected 64
 *
 * A client of this machine that takes the lease for turns yields it: others may overtake it if it
 * is stopped, because it may go on at any time and cannot be fenced. Turns allow that (commit.ts).
 * A client that takes the lease for anything else, or can be fenced, keeps it until it is gone.
 */
export class Lease {
  readonly address: Address;
  readonly #membership: Membership;
  /** Whether this client may take it for a repair even if primaries are elected. */
  borrows = false;
  /** Whether this client has it as a server process, which others may kill. */
  serves = false;
  #beats = 0;

  constructor(address: Address, membership: Membership) {
    this.address = address;
    this.#membership = membership;
  }

  get own(): number {
    return clientWord(this.#membership);
  }

  /** A client on a network can be fenced instead. */
  get #yields(): boolean {
    return this.#membership.thread.namespace !== NETWORK_NAMESPACE;
  }

  /** The word of a client that takes a lease for turns, where no primaries are elected. */
  get forTurns(): number {
    return this.own + (this.#yields ? YIELDS : 0);
  }

  /** Whether this client has the lease as a server process. */
  isServer({ client, serves }: Holding): boolean {
    return serves && client === this.own;
  }

  /** Whether another client has the lease. */
  isTaken({ client }: Holding): boolean {
    return client !== 0 && client !== this.own;
  }

  /** Whether this client has the lease for turns, or as a server process. */
  isForTurns({ client, serves, yields, token }: Holding): boolean {
    if (client !== this.own) return false;
    return serves || (token === 0 && yields === this.#yields);
  }

  *holder(): Operation<Holder> {
    const words = new Scratch(8);
    yield new Batch().read(this.address, 8, words, 0);
    return holderIn(words, 0);
  }

  /** Takes the lease for a repair. */
  *take(held: Holder): Operation<boolean> {
    if (held.token !== 0 && !this.borrows) return false;
    return yield* this.#takeFrom(held, wordOf(this.own, false, held.token));
  }

  /** Takes the lease for turns. */
  *takeForTurns(held: Holder): Operation<boolean> {
    if (held.token !== 0) return false;
    return yield* this.#takeFrom(held, BigInt(this.forTurns));
  }

  /** Takes the lease for good, as the server process that was elected with this token. */
  *takeToServe(held: Holder, token: number): Operation<boolean> {
    if (token < held.token) return false;
    // Before the word has a token: see `refuseUnelected`.
    if (token !== 0) yield* control.store(this.address + ELECTED_AT, ELECTED);
    return yield* this.#takeFrom(held, wordOf(this.own, true, token));
  }

  /** Keeps a lease that was taken for turns: from now on no client overtakes this one. */
  *keep(): Operation<boolean> {
    return yield* control.swap(this.address, BigInt(this.forTurns), wordOf(this.own, false, 0));
  }

  *#takeFrom(held: Holder, wanted: bigint): Operation<boolean> {
    if (!(yield* this.isToBeHad(held))) return false;
    invariant(this.#membership.id > 0, 'a client without a row takes a lease');
    return yield* control.swap(this.address, held.word, wanted);
  }

  /** Whether it is free, or its holder may be overtaken or can issue no more verbs. */
  *isToBeHad({ client, stands, yields }: Holder): Operation<boolean> {
    if (client === 0 || (yields && stands === true)) return true;
    return yield* isGone(this.#membership, client);
  }

  /** Releases a lease that was taken for a repair, or to serve. The token stays. */
  *release(): Operation<void> {
    const { client, word, yields, token } = yield* this.holder();
    if (client !== this.own || yields) return;
    yield* control.swap(this.address, word, wordOf(0, false, token));
  }

  /** Releases a lease that was taken for turns, unless another client has overtaken this one. */
  *releaseTurns(): Operation<void> {
    yield* control.swap(this.address, BigInt(this.forTurns), 0n);
  }

  /**
   * A word with a token keeps clients waiting for an elected primary. Raises SW_POOL_CORRUPT where
   * none was ever elected: the word is damaged.
   */
  *refuseUnelected({ token }: Holder): Operation<void> {
    if (token === 0) return;
    const elected = yield* control.load(this.address + ELECTED_AT);
    invariant(elected === ELECTED, `a lease has the token ${token}, and no primary was elected`);
  }

  /** Shows that the holder, this client, is at work. */
  *beat(): Operation<void> {
    yield* control.store(this.address + 8, BigInt(++this.#beats));
  }

  /** Whether this client cannot see whether the holder is gone, and so never succeeds it. */
  *isOutOfSight({ client }: Holder): Operation<boolean> {
    const row = yield* rowOf(this.#membership, client);
    return row !== undefined && this.#membership.isOutOfSight(row);
  }

  /**
   * Makes sure that a holder without progress issues no more verbs, so that the lease can be taken.
   * Kills a server process, which has agreed to that; revokes the session of a network client; does
   * nothing to another client of this machine.
   */
  *fence({ client, serves }: Holder): Operation<void> {
    const row = yield* rowOf(this.#membership, client);
    if (row) yield* this.#membership.fence(row, serves);
  }
}

/** Measures for how long a holder has made no progress. */
export class Stillness {
  #word = -1n;
  #progress = -1;
  #since = 0;

  /**
   * For how long neither the word nor `progress` has changed, in the unit of `now`: milliseconds or
   * polls. `progress` must change whenever the holder does anything.
   */
  look(word: bigint, progress: number, now: number): number {
    if (word !== this.#word || progress !== this.#progress) {
      this.#word = word;
      this.#progress = progress;
      this.#since = now;
    }
    return now - this.#since;
  }
}
