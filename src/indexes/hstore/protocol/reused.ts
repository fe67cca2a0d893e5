/** A list whose items are filled anew each time: neither they nor their array become garbage. */
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

  /** One more item, with whatever it was last filled with. */
  add(): T {
    this.#items[this.length] ??= this.#make();
    return this.#items[this.length++];
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
