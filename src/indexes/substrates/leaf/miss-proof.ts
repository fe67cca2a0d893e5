/** Share of misses from which on a search reads the proof of a miss at once. */
const MISSES_MAX = 1 / 8;
/** That share is averaged over this many searches. */
const SEARCHES = 64;

/**
 * Decides when a search reads the proof of a miss: the leaf's sequence and identity, before and
 * after the neighbourhood. A hit does not need it.
 *
 * If it is read only after the neighbourhood had no hit, a hit takes one READ instead of three, and
 * a miss two round trips instead of one. So while misses are many, it is read with the
 * neighbourhood.
 */
export class MissProof {
  /** A second round trip costs nothing, because the pool is in this machine's memory. */
  isFree = false;
  #misses = 0;

  get comesLate(): boolean {
    return this.isFree || this.#misses < MISSES_MAX;
  }

  /** Called after each search. */
  note(found: boolean): void {
    if (!this.isFree) this.#misses += ((found ? 0 : 1) - this.#misses) / SEARCHES;
  }
}
