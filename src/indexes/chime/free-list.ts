/** Most idle objects to keep: 64 scans in flight over a network have five requests each. */
const KEPT_MAX = 64 * 5;

/**
 * Objects that an operation uses for one step and then gives back, for the next step of any
 * operation. Making a new one takes longer than reading a leaf.
 */
export class FreeList<T> {
  readonly #idle: T[] = [];
  readonly #make: () => T;

  constructor(make: () => T) {
    this.#make = make;
  }

  take(): T {
    return this.#idle.pop() ?? this.#make();
  }

  give(object: T): void {
    if (this.#idle.length < KEPT_MAX) this.#idle.push(object);
  }
}
