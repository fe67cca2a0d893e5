import { control, packFields, unpackFields } from '../../pool/control.ts';
import type { ClientRow, Membership } from '../../pool/membership.ts';
import {
  type Address,
  highHalf,
  lowHalf,
  type Operation,
  type Scratch,
} from '../../verbs/index.ts';

const ID_BITS = 12;
const INCARNATION_BITS = 16;
const FIELDS = [ID_BITS, INCARNATION_BITS] as const;
const CLIENT_BITS = ID_BITS + INCARNATION_BITS;
const TOKEN_BITS = 35;
const WORD_FIELDS = [CLIENT_BITS, 1, TOKEN_BITS] as const;
export const TOKEN_MAX = 2 ** TOKEN_BITS - 1;

/** A client and its incarnation in one word; 0 is nobody. */
export function clientWord({ id, incarnation }: Membership): number {
  const fields = [id, incarnation];
  return Number(packFields(fields.map((value, i) => [value, FIELDS[i]] as const)));
}

/** The row of the word's client; undefined when that client has left. */
function* rowOf(membership: Membership, word: number): Operation<ClientRow | undefined> {
  const [id, incarnation] = unpackFields(BigInt(word), FIELDS);
  const row = (yield* membership.rows(true))[id - 1];
  return row.live && row.incarnation === incarnation ? row : undefined;
}

/**
 * Whether the client of the word can issue verbs no more: it has left, or its thread is gone. Only
 * then may others act for it, so the pool's membership is the fence of every lease.
 */
export function* isGone(membership: Membership, word: number): Operation<boolean> {
  const row = yield* rowOf(membership, word);
  return row === undefined || (yield* membership.isGone(row));
}

/** What the word of a lease says. */
export interface Holder {
  /** As it was read, for a CAS. */
  readonly word: bigint;
  /** 0: nobody. */
  readonly client: number;
  /** Whether it is a server process: it beats, and whoever it keeps waiting may end it. */
  readonly serves: boolean;
  /** The greatest fencing token of any primary; 0 when no coordination service elects them. */
  readonly token: number;
}

function holderOf(word: bigint): Holder {
  const [client, serves, token] = unpackFields(word, WORD_FIELDS);
  return { word, client, serves: serves === 1, token };
}

function wordOf(client: number, serves: boolean, token: number): bigint {
  const fields = [client, serves ? 1 : 0, token];
  return packFields(fields.map((value, i) => [value, WORD_FIELDS[i]] as const));
}

/**
 * Who is the server of a role: one word of the pool. It is taken by CAS from nobody, or from a
 * holder that can issue verbs no more. The word keeps the token of who was elected last, so one
 * that was elected before, and slept since, takes nothing. Behind the word stands the beat, which a
 * server process counts up as long as it works.
 *
 *   client 28 | whether it is a server process 1 | fencing token 35
 *   beat 64
 */
export class Lease {
  readonly address: Address;
  readonly #membership: Membership;
  /** Whether this client may take it for a repair although primaries are elected. */
  borrows = false;
  #beats = 0;

  constructor(address: Address, membership: Membership) {
    this.address = address;
    this.#membership = membership;
  }

  /** Also the whole word of a client that takes a lease for which nobody is elected. */
  get own(): number {
    return clientWord(this.#membership);
  }

  *holder(): Operation<Holder> {
    return holderOf(yield* control.load(this.address));
  }

  /** The holder, of a word that was READ. */
  holderIn(words: Scratch, at: number): Holder {
    const low = BigInt(lowHalf(words, at) >>> 0);
    return holderOf((BigInt(highHalf(words, at) >>> 0) << 32n) | low);
  }

  /** Takes the lease for a while, from nobody or from a holder that is gone. */
  *take(held: Holder): Operation<boolean> {
    if (held.token !== 0 && !this.borrows) return false;
    return yield* this.#takeFrom(held, wordOf(this.own, false, held.token));
  }

  /** Takes the lease for good, as the server process that was elected with this token. */
  *takeToServe(held: Holder, token: number): Operation<boolean> {
    if (token < held.token) return false;
    return yield* this.#takeFrom(held, wordOf(this.own, true, token));
  }

  *#takeFrom({ client, word }: Holder, wanted: bigint): Operation<boolean> {
    if (client !== 0 && !(yield* isGone(this.#membership, client))) return false;
    return yield* control.swap(this.address, word, wanted);
  }

  /** The token stays. */
  *release(): Operation<void> {
    const { client, word, token } = yield* this.holder();
    if (client === this.own) yield* control.swap(this.address, word, wordOf(0, false, token));
  }

  /** Shows that the holder, this client, is at work. */
  *beat(): Operation<void> {
    yield* control.store(this.address + 8, BigInt(++this.#beats));
  }

  /**
   * Sees to it that a holder which stands still issues no verb any more, so that the lease can be
   * taken. A server process has agreed to be killed for that; a client on this machine has not, and
   * one on the network is only cut off.
   */
  *fence({ client, serves }: Holder): Operation<void> {
    const row = yield* rowOf(this.#membership, client);
    if (row) yield* this.#membership.fence(row, serves);
  }
}

/** Tells a holder that stands still from one that works. */
export class Stillness {
  #word = -1n;
  #progress = -1;
  #since = 0;

  /**
   * For how long nothing has changed, of what `now` counts: clock ticks or looks. `progress` is all
   * that the holder would have changed.
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
