import { invariant } from '../../errors.ts';
import type { Operation } from '../../verbs/index.ts';
import { unpackFields } from '../control.ts';
import type { ClientRow, Membership } from './membership.ts';

const ID_BITS = 12;
const INCARNATION_BITS = 16;
const FIELDS = [ID_BITS, INCARNATION_BITS] as const;
export const CLIENT_BITS = ID_BITS + INCARNATION_BITS;

/**
 * A client and its incarnation in CLIENT_BITS, for words that name their holder; 0 is no client.
 * Avoids BigInt, because waiting clients call it in every poll.
 */
export function clientWord({ id, incarnation }: Membership): number {
  return (id % 2 ** ID_BITS) + (incarnation % 2 ** INCARNATION_BITS) * 2 ** ID_BITS;
}

/** The row of the word's client; undefined when that client has left. */
export function* rowOf(membership: Membership, word: number): Operation<ClientRow | undefined> {
  invariant(word >= 0 && word < 2 ** CLIENT_BITS, `a word that names a client is ${word}`);
  const [id, incarnation] = unpackFields(BigInt(word), FIELDS);
  const row = yield* membership.rowNamed(id);
  return row.live && row.incarnation === incarnation ? row : undefined;
}

/**
 * Whether the word's client can issue no more verbs: it has left, or its thread is gone. No client
 * may act in its place before that.
 */
export function* isGone(membership: Membership, word: number): Operation<boolean> {
  const row = yield* rowOf(membership, word);
  return row === undefined || (yield* membership.isGone(row));
}

/**
 * `isGone` for many words; asks once for each client, because thousands of words may name a few.
 */
export class GoneClients {
  readonly #membership: Membership;
  readonly #seen = new Map<number, boolean>();

  constructor(membership: Membership) {
    this.#membership = membership;
  }

  *has(word: number): Operation<boolean> {
    const seen = this.#seen.get(word);
    if (seen !== undefined) return seen;
    const gone = yield* isGone(this.#membership, word);
    this.#seen.set(word, gone);
    return gone;
  }
}
