/** Idle ones to keep: more than any scan has in use. */
const KEPT_MAX = 64;

/**
 * Things that a step of a scan needs and its end sets free. The next step of any scan uses them
 * again, because making them takes longer than reading a leaf.
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
