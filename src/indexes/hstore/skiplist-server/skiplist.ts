import type { KeyBytes } from '../protocol/record-heads.ts';
import { LEVELS_MAX, NONE, type SkiplistNodes } from './skiplist-nodes.ts';

/** A basic skiplist (section 4.1) in the server's own memory, in the order of the keys' bytes. */
export class Skiplist {
  readonly #nodes: SkiplistNodes;
  readonly #head: number;
  #last = NONE;
  #levels = 1;
  /** The last node before the one that was looked for, or put in, on each level. */
  readonly #path = new Uint32Array(LEVELS_MAX);

  constructor(nodes: SkiplistNodes) {
    this.#nodes = nodes;
    this.#head = nodes.takeHead();
    this.#path.fill(this.#head);
  }

  /** The first node from a key on, or the last one below it; without a key from the end. */
  begin(from: Uint8Array | undefined, reverse: boolean): number {
    if (from === undefined) return reverse ? this.#last : this.#nodes.next(this.#head, 0);
    const before = this.#before({ u8: from, at: 0, bytes: from.length });
    if (!reverse) return this.#nodes.next(before, 0);
    return before === this.#head ? NONE : before;
  }

  insert(node: number): void {
    this.#before(this.#nodes.keyOf(node));
    this.#path.fill(this.#head, this.#levels);
    this.link(node);
  }

  /**
   * Puts a node behind those of the path, of which it takes the place: behind all others of a list
   * that only this was done to.
   */
  link(node: number): void {
    const [nodes, path] = [this.#nodes, this.#path];
    const height = nodes.height(node);
    const [before] = path;
    const behind = nodes.next(before, 0);
    nodes.previous[node] = before === this.#head ? NONE : before;
    if (behind === NONE) this.#last = node;
    else nodes.previous[behind] = node;
    for (let level = 0; level < height; level++) {
      nodes.setNext(node, level, nodes.next(path[level], level));
      nodes.setNext(path[level], level, node);
      path[level] = node;
    }
    if (height > this.#levels) this.#levels = height;
  }

  /**
   * While a skiplist is built from a table that changes, a key can be in it twice: in the slot that
   * had it, and in the one that has it.
   */
  remove(node: number): void {
    const [nodes, path] = [this.#nodes, this.#path];
    this.#before(nodes.keyOf(node));
    for (let level = 0; level < nodes.height(node); level++) {
      let before = path[level];
      while (nodes.next(before, level) !== node) before = nodes.next(before, level);
      nodes.setNext(before, level, nodes.next(node, level));
    }
    const behind = nodes.next(node, 0);
    if (behind === NONE) this.#last = nodes.previous[node];
    else nodes.previous[behind] = nodes.previous[node];
  }

  /** The last node before the key; the path has that of each level. */
  #before(key: KeyBytes): number {
    const nodes = this.#nodes;
    let node = this.#head;
    for (let level = this.#levels - 1; level >= 0; level--) {
      let next = nodes.next(node, level);
      while (next !== NONE && nodes.compare(next, key) < 0) {
        node = next;
        next = nodes.next(node, level);
      }
      this.#path[level] = node;
    }
    return node;
  }
}
