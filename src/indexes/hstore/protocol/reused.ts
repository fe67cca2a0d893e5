/** A list that is emptied and refilled with the same objects, so that it makes no garbage. */
export class Reused<T> {
  readonly #items: T[] = [];
  readonly #make: () => T;
  length = 0;

  constructor(make: () => T) {
    this.#make = make;
  }

  at(i: number): T {
    return this.#items[i];
  }

  /** Appends an item, which still has its former contents, for the caller to fill in. */
  add(): T {
    this.#items[this.length] ??= this.#make();
    return this.#items[this.length++];
  }

  find(test: (item: T) => boolean): T | undefined {
    for (let i = 0; i < this.length; i++) if (test(this.#items[i])) return this.#items[i];
    return undefined;
  }

  /** Drops the items that the test refuses. The others keep their order. */
  keep(test: (item: T, i: number) => boolean): void {
    let kept = 0;
    for (let i = 0; i < this.length; i++) {
      const item = this.#items[i];
      if (!test(item, i)) continue;
      this.#items[i] = this.#items[kept];
      this.#items[kept++] = item;
    }
    this.length = kept;
  }
}
