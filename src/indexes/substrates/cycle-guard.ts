import { invariant } from '../../errors.ts';
import type { Address } from '../../verbs/index.ts';

/**
 * Detects a chain of blocks that leads back into itself, which a damaged word can cause. It uses
 * Brent's algorithm, which needs no memory and at most three rounds of the chain.
 */
export class CycleGuard {
  #mark: Address = 0;
  #steps = 0;
  #nextMark = 0;

  /** Before the first block of a chain. */
  begin(): void {
    this.#steps = 0;
    this.#nextMark = 0;
  }

  /** Before each further block. Raises SW_POOL_CORRUPT where the chain comes round. */
  pass(address: Address): void {
    // Every search passes here: the message is put together only for an error.
    const comesRound = this.#steps > 0 && address === this.#mark;
    if (comesRound) invariant(false, `a chain leads back to its block at ${address}`);
    if (this.#steps++ < this.#nextMark) return;
    this.#mark = address;
    this.#nextMark = 2 * this.#steps;
  }
}
