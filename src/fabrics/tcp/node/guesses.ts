/**
 * Slows the guessing of a secret down, and locks no client out.
 *
 * A node cannot tell a guess from the proof of a client that knows the secret before it has looked.
 * Whatever it delays or refuses because of many guesses, it delays for clients at the same address
 * too. So a proof costs work instead, while there are wrong ones: the client's nonce has to be such
 * that a hash over both nonces begins with zero bits. A client does that once a connection, in tens
 * of milliseconds; a guesser does it for every guess.
 */
import { pbkdf2Sync, randomBytes } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { NONCE_BYTES } from '../secrets.ts';

/** Wrong proofs that cost nothing; one a second is forgotten. */
export const FREE_GUESSES = 16;
const FORGOTTEN_MS = 1000;
/** However many there were, a proof costs nothing any more a minute after the last. */
const REMEMBERED_GUESSES = FREE_GUESSES + 60;
/** 2,048 tries on average. */
const WORK_BITS = 11;
/** What a node may ask of a client. */
export const WORK_BITS_MAX = 16;
/** Hash rounds of a try: enough that they, not the call, set its cost in any language. */
const ROUNDS = 100;
const HASH_BYTES = 4;
/** Tries in one turn of the client's event loop. */
const TRIES_PER_TURN = 16;

/** The wrong proofs of late, of all clients together: two numbers, however many guess. */
export class Guesses {
  readonly #now: () => number;
  readonly #bits: number;
  #wrong = 0;
  #at = 0;

  constructor(now: () => number = () => performance.now(), bits = WORK_BITS) {
    this.#now = now;
    this.#bits = bits;
  }

  /** A proof was wrong. */
  note(): void {
    this.#wrong = this.#remembered() + 1;
    this.#at = this.#now();
  }

  /** The zero bits that a proof has to come with now. */
  get workBits(): number {
    return this.#remembered() > FREE_GUESSES ? this.#bits : 0;
  }

  #remembered(): number {
    const wrong = Math.min(this.#wrong, REMEMBERED_GUESSES);
    return Math.max(0, wrong - (this.#now() - this.#at) / FORGOTTEN_MS);
  }
}

export function hasWork(nodeNonce: Uint8Array, clientNonce: Uint8Array, bits: number): boolean {
  if (bits === 0) return true;
  const hash = pbkdf2Sync(clientNonce, nodeNonce, ROUNDS, HASH_BYTES, 'sha256');
  return hash.readUInt32BE(0) >>> (32 - bits) === 0;
}

/**
 * A nonce that has so much work in it, found without holding up the event loop; undefined when it
 * is not wanted any more.
 */
export async function findNonce(
  nodeNonce: Uint8Array,
  bits: number,
  isWanted: () => boolean,
): Promise<Uint8Array | undefined> {
  for (let tries = 1; isWanted(); tries++) {
    const nonce = randomBytes(NONCE_BYTES);
    if (hasWork(nodeNonce, nonce, bits)) return nonce;
    if (tries % TRIES_PER_TURN === 0) await setImmediate();
  }
  return undefined;
}
