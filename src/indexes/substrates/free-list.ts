/**
 * Objects that an operation uses for one step and then gives back, for the next step of any
 * operation. Making a new one takes longer than reading a leaf, and its buffers have to be
 * collected.
 */
export class FreeList<T> {
  readonly #idle: T[] = [];
  readonly #make: () => T;
  readonly #keptMax: number;

  /** Keeps at most `keptMax` idle objects. */
  constructor(make: () => T, keptMax: number) {
    this.#make = make;
    this.#keptMax = keptMax;
  }

  take(): T {
    return this.#idle.pop() ?? this.#make();
  }

  give(object: T): void {
    if (this.#idle.length < this.#keptMax) this.#idle.push(object);
  }
}
