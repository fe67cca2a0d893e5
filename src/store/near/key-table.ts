const SLOTS_AT_FIRST = 512;
/**
 * How far from its first slot a string may be. At most half of the slots are in use, so chance
 * never needs as much. A client that chooses the keys can find strings with equal hashes for any
 * seed. The table then does not find some of them, but no search takes long.
 */
export const PROBES_MAX = 128;
/** In place of an entry's number: no entry. */
export const NONE = -1;

/**
 * Numbers of strings, by open addressing. A Map would load more cache lines a look-up: its bucket,
 * its entry, and every other string of the bucket. Here a probe loads one line of hashes, and then
 * the string itself only if its hash is the same.
 *
 * `held[2 * number]` is the string of a number, so that a caller can keep something beside it.
 */
export class KeyTable {
  readonly held: unknown[] = [];
  /** How many slots it has at least, once it grows. */
  readonly #slotsExpected: number;
  /** By slot: the string's hash, and its number plus 1, or 0 in a free slot. */
  #slots = new Int32Array(2 * SLOTS_AT_FIRST);
  #mask = SLOTS_AT_FIRST - 1;
  readonly #seed = (Math.random() * 2 ** 32) | 0;
  #size = 0;

  /** Once it grows, it has slots for `expected` strings at once. */
  constructor(expected = 0) {
    this.#slotsExpected = 2 ** Math.ceil(Math.log2(2 * expected + 2));
  }

  get size(): number {
    return this.#size;
  }

  find(key: string): number {
    const { held } = this;
    const slots = this.#slots;
    const mask = this.#mask;
    const hash = hashOf(key, this.#seed);
    for (let probe = 0; probe < PROBES_MAX; probe++) {
      const slot = (hash + probe) & mask;
      const number = slots[2 * slot + 1] - 1;
      if (number === NONE) return NONE;
      if (slots[2 * slot] === hash && held[2 * number] === key) return number;
    }
    return NONE;
  }

  /** The string is not there yet, and the number is not in use. */
  add(key: string, number: number): void {
    if (2 * ++this.#size > this.#mask) this.#grow();
    this.held[2 * number] = key;
    this.#place(hashOf(key, this.#seed), number);
  }

  #place(hash: number, number: number): void {
    const slots = this.#slots;
    for (let probe = 0; probe < PROBES_MAX; probe++) {
      const slot = (hash + probe) & this.#mask;
      if (slots[2 * slot + 1] !== 0) continue;
      slots[2 * slot] = hash;
      slots[2 * slot + 1] = number + 1;
      return;
    }
  }

  #grow(): void {
    const before = this.#slots;
    const slots = Math.max(before.length, this.#slotsExpected);
    this.#mask = slots - 1;
    this.#slots = new Int32Array(2 * slots);
    for (let at = 0; at < before.length; at += 2) {
      if (before[at + 1] !== 0) this.#place(before[at], before[at + 1] - 1);
    }
  }

  remove(number: number): void {
    const slot = this.#slotOf(number);
    if (slot !== NONE) this.#empty(slot);
    this.held[2 * number] = undefined;
    this.#size--;
  }

  /** NONE if the string found no slot. */
  #slotOf(number: number): number {
    const hash = hashOf(this.held[2 * number] as string, this.#seed);
    for (let probe = 0; probe < PROBES_MAX; probe++) {
      const slot = (hash + probe) & this.#mask;
      if (this.#slots[2 * slot + 1] === number + 1) return slot;
    }
    return NONE;
  }

  /** Moves up strings that a search would not find behind the gap. */
  #empty(gap: number): void {
    const slots = this.#slots;
    const mask = this.#mask;
    for (let slot = (gap + 1) & mask; slots[2 * slot + 1] !== 0; slot = (slot + 1) & mask) {
      const isFound = ((slot - slots[2 * slot]) & mask) < ((slot - gap) & mask);
      if (isFound) continue;
      slots[2 * gap] = slots[2 * slot];
      slots[2 * gap + 1] = slots[2 * slot + 1];
      gap = slot;
    }
    slots[2 * gap + 1] = 0;
  }
}

/** 32 bits. Two products at a time, so that neither waits for the other. */
function hashOf(key: string, seed: number): number {
  const { length } = key;
  let one = seed ^ length;
  let two = seed;
  let i = 0;
  for (; i < length - 3; i += 4) {
    one = Math.imul(one ^ (key.charCodeAt(i) | (key.charCodeAt(i + 1) << 16)), 0x5bd1e995);
    two = Math.imul(two ^ (key.charCodeAt(i + 2) | (key.charCodeAt(i + 3) << 16)), 0x2c1b3c6d);
    one = (one << 13) | (one >>> 19);
    two = (two << 15) | (two >>> 17);
  }
  for (; i < length; i++) one = Math.imul(one ^ key.charCodeAt(i), 0x5bd1e995);
  one = Math.imul(one ^ two ^ (one >>> 15), 0x5bd1e995);
  return one ^ (one >>> 13);
}
