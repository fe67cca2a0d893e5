/** The share of searches from which on each one reads what proves a miss at once. */
const MISSES_MAX = 1 / 8;
/** Over how many searches that share is averaged. */
const SEARCHES = 64;

/**
 * When a client reads what proves a miss: the leaf's sequence and identity, before and after the
 * neighbourhood. A hit needs none of it.
 *
 * Read only after the neighbourhood had no hit, it makes a hit one READ instead of three, and a
 * miss two round trips instead of one. So it comes with the neighbourhood while misses are many.
 */
export class MissProof {
  /** A second round trip costs nothing: this client's memory is its own machine's. */
  isFree = false;
  #misses = 0;

  get comesLate(): boolean {
    return this.isFree || this.#misses < MISSES_MAX;
  }

  /** A neighbourhood was searched. */
  note(found: boolean): void {
    if (!this.isFree) this.#misses += ((found ? 0 : 1) - this.#misses) / SEARCHES;
  }
}
