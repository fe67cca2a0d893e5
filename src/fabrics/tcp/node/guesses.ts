/**
 * Slows down the guessing of a secret without locking out clients.
 *
 * A node cannot tell a guess from a correct proof before it checks it. If it delayed or refused
 * proofs because of many guesses, it would delay clients at the same address too. Instead, while
 * there are wrong proofs, a proof costs work: the client must find a nonce such that a hash of both
 * nonces begins with zero bits. A client does that once per connection, in tens of milliseconds; an
 * attacker has to do it for every guess.
 */
import { pbkdf2Sync, randomBytes } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { NONCE_BYTES } from '../secrets.ts';

/** Wrong proofs that cost nothing. One per second is forgotten. */
export const FREE_GUESSES = 16;
const FORGOTTEN_MS = 1000;
/** A minute after the last wrong proof, proofs cost nothing again, however many there were. */
const REMEMBERED_GUESSES = FREE_GUESSES + 60;
/** 2,048 tries on average. */
const WORK_BITS = 11;
/** Most work that a node may demand. */
export const WORK_BITS_MAX = 16;
/** Hash rounds per try: enough to dominate the cost of a try in any language. */
const ROUNDS = 100;
const HASH_BYTES = 4;
/** Tries in one turn of the client's event loop. */
const TRIES_PER_TURN = 16;

/** The recent wrong proofs of all clients: only two numbers, however many clients guess. */
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

  /** The number of zero bits that a proof needs now. */
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
 * Finds a nonce with the demanded work, without blocking the event loop; undefined if it is no
 * longer wanted.
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
