import type { Prng } from '../../random/prng.ts';
import type { Address } from '../../verbs/index.ts';

const LEVELS_MAX = 16;

/** A key of the skiplist, and the slot of the hash table that has it. */
export interface SkiplistNode {
  /** The key's bytes, one character each: strings of such characters compare as the bytes do. */
  readonly key: string;
  slot: Address;
  /** The slot's word: which record the key has. */
  low: number;
  high: number;
  /** The next node of each level that this one is in. */
  readonly next: (SkiplistNode | undefined)[];
  previous: SkiplistNode | undefined;
}

/** A basic skiplist (section 4.1) in the server's own memory, in the order of the keys' bytes. */
export class Skiplist {
  readonly #prng: Prng;
  readonly #head: SkiplistNode = {
    ...{ key: '', slot: 0, low: 0, high: 0, previous: undefined },
    next: new Array(LEVELS_MAX).fill(undefined),
  };
  #last: SkiplistNode | undefined;
  #levels = 1;
  size = 0;

  constructor(prng: Prng) {
    this.#prng = prng;
  }

  get last(): SkiplistNode | undefined {
    return this.#last;
  }

  /** The first node with this key or a greater one. */
  atOrAfter(key: string): SkiplistNode | undefined {
    return this.#before(key).next[0];
  }

  /** The last node with a smaller key. */
  lastBefore(key: string): SkiplistNode | undefined {
    const before = this.#before(key);
    return before === this.#head ? undefined : before;
  }

  insert(key: string, slot: Address, low: number, high: number): SkiplistNode {
    const path = this.#path(key);
    const height = this.#drawHeight();
    const next: SkiplistNode['next'] = new Array(height);
    const node: SkiplistNode = { key, slot, low, high, next, previous: undefined };
    for (let level = 0; level < height; level++) {
      const before = path[level] ?? this.#head;
      next[level] = before.next[level];
      before.next[level] = node;
    }
    if (path[0] !== this.#head) node.previous = path[0];
    const behind = next[0];
    if (behind) behind.previous = node;
    else this.#last = node;
    this.#levels = Math.max(this.#levels, height);
    this.size++;
    return node;
  }

  /**
   * While a skiplist is built from a table that changes, a key can be in it twice: in the slot that
   * had it, and in the one that has it.
   */
  remove(node: SkiplistNode): void {
    const path = this.#path(node.key);
    for (let level = 0; level < node.next.length; level++) {
      let before = path[level];
      while (before.next[level] !== node) before = before.next[level] as SkiplistNode;
      before.next[level] = node.next[level];
    }
    const behind = node.next[0];
    if (behind) behind.previous = node.previous;
    else this.#last = node.previous;
    this.size--;
  }

  #before(key: string): SkiplistNode {
    let node = this.#head;
    for (let level = this.#levels - 1; level >= 0; level--) {
      for (let next = node.next[level]; next && next.key < key; next = node.next[level]) {
        node = next;
      }
    }
    return node;
  }

  /** The last node before the key on each level. */
  #path(key: string): SkiplistNode[] {
    const path: SkiplistNode[] = new Array(this.#levels);
    let node = this.#head;
    for (let level = this.#levels - 1; level >= 0; level--) {
      for (let next = node.next[level]; next && next.key < key; next = node.next[level]) {
        node = next;
      }
      path[level] = node;
    }
    return path;
  }

  /** A quarter of the nodes of one level are in the next. */
  #drawHeight(): number {
    let height = 1;
    while (height < LEVELS_MAX && this.#prng.below(4) === 0) height++;
    return height;
  }
}
