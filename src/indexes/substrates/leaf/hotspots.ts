/** Entries of a set, among which the least frequently used one is evicted. */
const WAYS = 8;
const COUNT_MAX = 255;

/** How well a client's hotspot buffer predicted where its searches would find their keys. */
export interface Speculation {
  /** Searches that asked. */
  asked: number;
  /** Searches whose key the buffer had. */
  known: number;
  /** Searches whose key was still where the buffer remembered it. */
  right: number;
}

/**
 * The hotspot buffer (CHIME section 4.3) holds leaf and entry of the keys that a client searches
 * for most. A search for one of them READs that entry alone, and is done if the key is still there.
 * Each set of eight evicts its least frequently used key: a newcomer first wears that key's count
 * down.
 */
export class Hotspots {
  readonly #sets: number;
  readonly #ids: Int32Array;
  readonly #words: Int32Array;
  readonly #counts: Uint8Array;
  readonly speculation: Speculation = { asked: 0, known: 0, right: 0 };

  /** Room for at least so many keys, 17 bytes each; 0 for none. */
  constructor(entries: number) {
    this.#sets = entries === 0 ? 0 : 2 ** Math.ceil(Math.log2(Math.max(1, entries / WAYS)));
    this.#ids = new Int32Array(2 * WAYS * this.#sets);
    this.#words = new Int32Array(2 * WAYS * this.#sets);
    this.#counts = new Uint8Array(WAYS * this.#sets);
  }

  get off(): boolean {
    return this.#sets === 0;
  }

  /**
   * The entry in which the key with these hash words was last found, or less than 0. `leaf`: the
   * low 32 bits of the leaf's identity.
   */
  find(h1: number, h2: number, leaf: number): number {
    this.speculation.asked++;
    const at = this.#lookUp(h1, h2);
    if (at < 0 || this.#words[2 * at + 1] !== leaf) return -1;
    this.speculation.known++;
    this.#count(at);
    return this.#words[2 * at];
  }

  /** Notes that a search has found the key there. */
  note(h1: number, h2: number, leaf: number, entry: number): void {
    let at = this.#lookUp(h1, h2);
    if (at < 0) at = this.#makeWay(h1, h2);
    if (at < 0) return;
    this.#words[2 * at] = entry;
    this.#words[2 * at + 1] = leaf;
  }

  /** Forgets a key that is absent. */
  forget(h1: number, h2: number): void {
    const at = this.#lookUp(h1, h2);
    if (at >= 0) this.#counts[at] = 0;
  }

  #first(h1: number, h2: number): number {
    return WAYS * ((h1 ^ (h2 << 7)) & (this.#sets - 1));
  }

  #lookUp(h1: number, h2: number): number {
    if (this.#sets === 0) return -1;
    const first = this.#first(h1, h2);
    for (let at = first; at < first + WAYS; at++) {
      const same = this.#ids[2 * at] === h1 && this.#ids[2 * at + 1] === h2;
      if (same && this.#counts[at] > 0) return at;
    }
    return -1;
  }

  /** An index for a new key, or less than 0 if the least used key keeps its own. */
  #makeWay(h1: number, h2: number): number {
    if (this.#sets === 0) return -1;
    const first = this.#first(h1, h2);
    let least = first;
    for (let at = first; at < first + WAYS; at++) {
      if (this.#counts[at] < this.#counts[least]) least = at;
    }
    if (this.#counts[least] > 1) {
      this.#counts[least]--;
      return -1;
    }
    this.#ids[2 * least] = h1;
    this.#ids[2 * least + 1] = h2;
    this.#counts[least] = 1;
    return least;
  }

  /** Halves all counts of a set when one reaches the maximum, so that old hotspots give way. */
  #count(at: number): void {
    if (++this.#counts[at] < COUNT_MAX) return;
    const first = at - (at % WAYS);
    for (let one = first; one < first + WAYS; one++) this.#counts[one] >>= 1;
  }
}
