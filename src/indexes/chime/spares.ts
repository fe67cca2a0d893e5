/** More idle ones than any scan has in use are not kept. */
const KEPT_MAX = 64;

/**
 * Things that a step of a scan needs and its end sets free: kept for the next step, of whatever
 * scan, because making them takes longer than reading a leaf.
 */
export class Spares<T> {
  readonly #idle: T[] = [];
  readonly #make: () => T;

  constructor(make: () => T) {
    this.#make = make;
  }

  take(): T {
    return this.#idle.pop() ?? this.#make();
  }

  give(spare: T): void {
    if (this.#idle.length < KEPT_MAX) this.#idle.push(spare);
  }
}
