/**
 * First versions of new records. Updates count on from them; starting at random keeps a key that
 * was deleted and inserted again from repeating a version that a client remembers.
 */
export class FirstVersions {
  #state: number;

  constructor(seed = Math.random() * 2 ** 32) {
    this.#state = seed | 1;
  }

  /** 32 bits, by xorshift. */
  next(): number {
    let x = this.#state;
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    this.#state = x;
    return x >>> 0;
  }
}
