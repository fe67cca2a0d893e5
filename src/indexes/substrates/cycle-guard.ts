import { invariant } from '../../errors.ts';
import type { Address } from '../../verbs/index.ts';

/**
 * Detects a chain of blocks that leads back into itself, which a damaged word can cause. It uses
 * Brent's algorithm, which needs constant memory and walks the cycle at most three times.
 */
export class CycleGuard {
  #mark: Address = 0;
  #steps = 0;
  #nextMark = 0;

  /** Call before the first block of a chain. */
  begin(): void {
    this.#steps = 0;
    this.#nextMark = 0;
  }

  /** Call with each block. Raises SW_POOL_CORRUPT for a cycle. */
  pass(address: Address): void {
    // Every search comes here, so the message is built only for an error.
    const isCycle = this.#steps > 0 && address === this.#mark;
    if (isCycle) invariant(false, `a chain leads back to its block at ${address}`);
    if (this.#steps++ < this.#nextMark) return;
    this.#mark = address;
    this.#nextMark = 2 * this.#steps;
  }
}
