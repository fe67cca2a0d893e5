import { invariant } from '../../../errors.ts';
import { HEADER_BYTES } from '../../../records/layout.ts';
import type { Address, Scratch } from '../../../verbs/index.ts';
import type { PackedRoutes, PackedSeparators } from './internal-node.ts';
import { areSame, compareKeys } from './keys.ts';
import { addressOfLink, FROZEN, INTERNAL } from './link.ts';

/** Which leaf a request goes to: its key's, that of the highest key below it, or the last. */
export const AT_KEY = 0;
export const BELOW_KEY = 1;
export const AT_LAST = 2;
export type Side = typeof AT_KEY | typeof BELOW_KEY | typeof AT_LAST;

/** A request on its path to a leaf, and how far it has come. */
export interface RoutedRequest {
  readonly outgoing: Scratch;
  readonly keyBytes: number;
  side: Side;
  /** The leaf of the key, as a link, and its address; 0 if the path is not cached. */
  leafLow: number;
  leafHigh: number;
  leaf: Address;
  /** The link to the next leaf below the same node; 0 where there is none. */
  nextLow: number;
  nextHigh: number;
  /** The leaf's index among the children of `above`. */
  child: number;
  /** What the client remembers of the node above the leaf. */
  above: CachedNode | undefined;
}

/** What keys may be below a node: from `lower` to below `upper`. */
export interface Borders {
  lower: Uint8Array;
  upper: Uint8Array | undefined;
}

const EVERYTHING: Borders = { lower: new Uint8Array(0), upper: undefined };

/** The root link is cached as a node of one child, without a link of its own. */
const ROOT_LINK = { low: 0, high: 0 };

/*
 * A node in the arena, in words of 4 bytes, aligned to a line:
 *
 *   children | shared bytes | index in `nodes` | whether an operation has used it
 *   the shared bytes, a word each
 *   prefixes: a word for each separator, then another word for the bytes behind
 *   for each child: its link, two words
 *   above internal nodes, for each child: epoch in which its link was last known | its offset
 *
 * A descent first touches the lines at the front of the node, and then searches it. The processor
 * then waits once for these lines, and for the child's.
 */
const CHILDREN = 0;
const SHARED = 1;
const NUMBER = 2;
const USED = 3;
const HEADER_WORDS = 4;
const LINK_WORDS = 2;
const LINE_WORDS = 16;
/** Bytes that the node above takes for a child. */
const REFERENCE_BYTES = 8;
/** The offset of a child that is not in the arena. */
const NOWHERE = 0;
const FIRST_WORDS = 256;
/** How much of a node to touch before its search: its header and the first 60 prefixes. */
const TOUCHED_WORDS = 4 * LINE_WORDS;

/**
 * The words of the cached nodes, in one array, so that a descent loads only the cache lines of its
 * path, and no objects. Forgotten nodes stay in the arena until the cache has moved the others into
 * a new one (cache.ts). A node of an older arena keeps that arena.
 */
export class NodeArena {
  words: Int32Array;
  readonly nodes: CachedNode[] = [];
  /** Where touching leaves what it loaded, so that the loads are not optimised away. */
  touched = 0;
  #end = LINE_WORDS;

  constructor(words = FIRST_WORDS) {
    this.words = wordsUnfilled(words);
  }

  /** Words in use, also by nodes that were forgotten since. */
  get size(): number {
    return this.#end;
  }

  allocate(words: number): number {
    const at = this.#end;
    this.#end += Math.ceil(words / LINE_WORDS) * LINE_WORDS;
    if (this.#end + TOUCHED_WORDS > this.words.length) {
      const grown = wordsUnfilled(2 * (this.#end + TOUCHED_WORDS));
      grown.set(this.words);
      this.words = grown;
    }
    return at;
  }

  /** Copies words of another arena to the end of this one; returns their offset. */
  copy({ words }: NodeArena, from: number, count: number): number {
    const at = this.allocate(count);
    this.words.set(words.subarray(from, from + count), at);
    return at;
  }

  /**
   * Descends from the node at `top` as far as nodes are cached, without a verb. Returns the last
   * node on the path. If `request.leaf` is 0, the next node is not cached, or is in another arena.
   */
  descend(top: number, request: RoutedRequest): CachedNode {
    const { words } = this;
    request.leaf = 0;
    for (let at = top; ; ) {
      this.touched = words[at + 16] ^ words[at + 32] ^ words[at + 48];
      const child = this.childOf(at, request);
      // Writes only to change the word: the processor need not write back an unchanged line.
      if (words[at + USED] === 0) words[at + USED] = 1;
      const link = linkOf(words, at, child);
      const high = words[link + 1];
      if ((high & INTERNAL) !== 0) {
        const next = words[nodeOf(words, at, child)];
        if (next !== NOWHERE) {
          at = next;
          continue;
        }
      }
      request.child = child;
      if ((high & INTERNAL) === 0) {
        request.leafLow = words[link];
        request.leafHigh = high;
        request.leaf = addressOfLink(words[link], high);
        const isLast = child + 1 === words[at + CHILDREN];
        request.nextLow = isLast ? 0 : words[link + LINK_WORDS];
        request.nextHigh = isLast ? 0 : words[link + LINK_WORDS + 1];
      }
      return this.nodes[words[at + NUMBER]];
    }
  }

  /** The child of the node at `at` that a request goes to. */
  childOf(at: number, { outgoing, keyBytes, side }: RoutedRequest): number {
    const { words } = this;
    const { u8 } = outgoing;
    const count = words[at + CHILDREN] - 1;
    const shared = words[at + SHARED];
    if (side === AT_LAST) return count;
    for (let i = 0; i < shared; i++) {
      if (i === keyBytes) return 0;
      const difference = u8[HEADER_BYTES + i] - words[at + HEADER_WORDS + i];
      if (difference !== 0) return difference < 0 ? 0 : count;
    }
    const first = at + HEADER_WORDS + shared;
    const [behind, end] = [HEADER_BYTES + shared, HEADER_BYTES + keyBytes];
    const number = prefixAt(u8, behind, end);
    let below = countBelow(words, first, count, number);
    if (below === count || words[first + below] !== number) return below;
    // Equal prefixes: the separators differ further on.
    const more = prefixAt(u8, behind + PREFIX_BYTES, end);
    const second = first + count;
    while (words[second + below] < more) {
      below++;
      if (below === count || words[first + below] !== number) return below;
    }
    if (words[second + below] !== more) return below;
    const { separators } = this.nodes[words[at + NUMBER]];
    return passSeparators(separators, below, u8, keyBytes, side === AT_KEY);
  }
}

/** Not zeroed: that takes as long as several writes for megabytes; nodes set all of their words. */
function wordsUnfilled(count: number): Int32Array<ArrayBuffer> {
  return new Int32Array(Buffer.allocUnsafeSlow(4 * count).buffer);
}

function linkOf(words: Int32Array, at: number, child: number): number {
  const prefixes = 2 * (words[at + CHILDREN] - 1);
  return at + HEADER_WORDS + words[at + SHARED] + prefixes + LINK_WORDS * child;
}

/** Offset of the epoch of an internal child's link. */
function epochOf(words: Int32Array, at: number, child: number): number {
  return linkOf(words, at, words[at + CHILDREN]) + 2 * child;
}

/** Offset of the word that has such a child's offset. */
function nodeOf(words: Int32Array, at: number, child: number): number {
  return epochOf(words, at, child) + 1;
}

function wordsOf(children: number, shared: number, hasLeaves: boolean): number {
  const perChild = LINK_WORDS + (hasLeaves ? 0 : 2);
  return HEADER_WORDS + shared + 2 * (children - 1) + perChild * children;
}

/** The first separator from `from` on that is above the key or, unless `orEqual`, equal to it. */
function passSeparators(
  separators: PackedSeparators,
  from: number,
  u8: Uint8Array,
  keyBytes: number,
  orEqual: boolean,
): number {
  const { bytes, ends } = separators;
  let child = from;
  for (; child < ends.length; child++) {
    const begin = separators.begin(child);
    const order = compareKeys(bytes, begin, ends[child] - begin, u8, HEADER_BYTES, keyBytes);
    if (order > 0 || (order === 0 && !orEqual)) break;
  }
  return child;
}

/** One client's copy of an internal node or, with one child, of the root link. */
export class CachedNode {
  readonly separators: PackedSeparators;
  /** The link that leads to the node itself; 0 for the root link. */
  readonly low: number;
  readonly high: number;
  /** Cached children. Only as long as it must be: most nodes are above leaves, and have none. */
  readonly #nodes: (CachedNode | undefined)[] = [];
  /** The keys below the node: all for the root link; else what the node above says. */
  #borders: Borders | undefined;
  #arena: NodeArena;
  #at: number;
  readonly #hasLeaves: boolean;

  constructor(
    arena: NodeArena,
    { links, separators }: PackedRoutes,
    epoch: number,
    { low, high } = ROOT_LINK,
  ) {
    const children = links.length / 2;
    const shared = sharedBytes(separators);
    this.separators = separators;
    this.low = low;
    this.high = high;
    if (low === ROOT_LINK.low && high === ROOT_LINK.high) this.#borders = EVERYTHING;
    this.#arena = arena;
    this.#hasLeaves = (links[1] & INTERNAL) === 0;
    this.#at = arena.allocate(wordsOf(children, shared, this.#hasLeaves));
    const at = this.#at;
    const { words } = arena;
    words[at + CHILDREN] = children;
    words[at + SHARED] = shared;
    words[at + NUMBER] = arena.nodes.push(this) - 1;
    words[at + USED] = 1;
    const first = linkOf(words, at, 0);
    for (let i = 0; i < links.length; i++) words[first + i] = links[i];
    for (let child = 0; child < children && !this.#hasLeaves; child++) {
      words[epochOf(words, at, child)] = epoch;
      words[nodeOf(words, at, child)] = NOWHERE;
    }
    const count = separators.length;
    const prefixes = at + HEADER_WORDS + shared;
    const { bytes, ends } = separators;
    for (let i = 0; i < shared; i++) words[at + HEADER_WORDS + i] = bytes[i];
    for (let i = 0; i < count; i++) {
      const behind = separators.begin(i) + shared;
      words[prefixes + i] = prefixAt(bytes, behind, ends[i]);
      words[prefixes + count + i] = prefixAt(bytes, behind + PREFIX_BYTES, ends[i]);
    }
  }

  get remembersChildren(): boolean {
    return this.#nodes.some((node) => node !== undefined);
  }

  get children(): number {
    return this.separators.length + 1;
  }

  get bytes(): number {
    const { bytes, ends } = this.separators;
    return 4 * this.#words + REFERENCE_BYTES + bytes.length + ends.byteLength;
  }

  get #words(): number {
    const { words } = this.#arena;
    return wordsOf(this.children, words[this.#at + SHARED], this.#hasLeaves);
  }

  #link(child: number): number {
    return linkOf(this.#arena.words, this.#at, child);
  }

  linkLow(child: number): number {
    return this.#arena.words[this.#link(child)];
  }

  linkHigh(child: number): number {
    return this.#arena.words[this.#link(child) + 1];
  }

  /** Whether the link of the child is still this one. */
  leadsTo(child: number, low: number, high: number): boolean {
    return this.linkLow(child) === low && this.linkHigh(child) === high;
  }

  /** Whether an operation has used the node since the cache last forgot nodes. */
  get used(): boolean {
    return this.#arena.words[this.#at + USED] !== 0;
  }

  set used(used: boolean) {
    this.#arena.words[this.#at + USED] = used ? 1 : 0;
  }

  /**
   * The epoch (its lower half) in which the link of an internal child was last known to be right.
   * While the client announces that epoch, the block that it names cannot be reused.
   */
  knownIn(child: number): number {
    invariant(!this.#hasLeaves, 'leaves are not cached');
    return this.#arena.words[epochOf(this.#arena.words, this.#at, child)];
  }

  know(child: number, epoch: number): void {
    if (!this.#hasLeaves) this.#arena.words[epochOf(this.#arena.words, this.#at, child)] = epoch;
  }

  /** The child, if it is remembered too. */
  node(child: number): CachedNode | undefined {
    return this.#nodes[child];
  }

  setNode(child: number, node: CachedNode | undefined): void {
    if (node !== undefined) node.#standBelow(this, child);
    if (node !== undefined || child < this.#nodes.length) this.#nodes[child] = node;
    this.#lead(child, node);
  }

  /** Lets descents within the arena reach a child, if it is in the same one. */
  #lead(child: number, node: CachedNode | undefined): void {
    if (this.#hasLeaves) return;
    const isBeside = node !== undefined && node.#arena === this.#arena;
    const { words } = this.#arena;
    words[nodeOf(words, this.#at, child)] = isBeside ? node.#at : NOWHERE;
  }

  /** A node covers the same keys for as long as it exists. */
  #standBelow(above: CachedNode, child: number): void {
    this.#borders ??= above.bordersOf(child);
    const { lower, upper } = this.#borders;
    const same = above.#isBorder(child - 1, lower) && above.#isBorder(child, upper);
    invariant(same, 'the bounds of a node have changed');
  }

  /** Whether a key is the upper bound of a child or, with -1, the lower bound of all. */
  #isBorder(child: number, key: Uint8Array | undefined): boolean {
    const { separators } = this;
    if (child < 0) return areSame((this.#borders as Borders).lower, key);
    if (child === separators.length) return areSame((this.#borders as Borders).upper, key);
    if (key === undefined) return false;
    const { bytes, ends } = separators;
    const begin = separators.begin(child);
    return compareKeys(bytes, begin, ends[child] - begin, key, 0, key.length) === 0;
  }

  /**
   * The lowest key that may be below a child, and the lowest key above all of these (undefined: no
   * such key). A replacement of the child has the same bounds.
   */
  lowerOf(child: number): Uint8Array {
    return child > 0 ? this.separators.at(child - 1) : (this.#borders as Borders).lower;
  }

  upperOf(child: number): Uint8Array | undefined {
    return child < this.separators.length
      ? this.separators.at(child)
      : (this.#borders as Borders).upper;
  }

  /** Copies what `lowerOf` returns to where a request has its key; returns the key's length. */
  copyLower(child: number, outgoing: Scratch): number {
    const { bytes, ends } = this.separators;
    const from = child > 0 ? bytes : (this.#borders as Borders).lower;
    const begin = child > 0 ? this.separators.begin(child - 1) : 0;
    const length = child > 0 ? ends[child - 1] - begin : from.length;
    outgoing.ensure(HEADER_BYTES + length);
    for (let i = 0; i < length; i++) outgoing.u8[HEADER_BYTES + i] = from[begin + i];
    return length;
  }

  bordersOf(child: number): Borders {
    return { lower: this.lowerOf(child), upper: this.upperOf(child) };
  }

  /** Changes the link of a child, and forgets the child. */
  relink(child: number, low: number, high: number, epoch: number): void {
    const link = this.#link(child);
    this.#arena.words[link] = low;
    this.#arena.words[link + 1] = high;
    this.know(child, epoch);
    this.setNode(child, undefined);
  }

  /** The child that a request goes to. */
  childFor(request: RoutedRequest): number {
    return this.#arena.childOf(this.#at, request);
  }

  /**
   * Takes over the cached children that an older copy of the same node has, and this one still
   * links. Links are compared with their tags: another node may be in the block by now.
   */
  inherit(older: CachedNode): void {
    const { words } = this.#arena;
    const first = this.#link(0);
    let next = 0;
    // The children have the same order in both.
    older.#nodes.forEach((node, before) => {
      if (node === undefined) return;
      const [low, high] = [older.linkLow(before), older.linkHigh(before)];
      for (let child = next; child < this.children; child++) {
        const link = first + LINK_WORDS * child;
        if (words[link] !== low) continue;
        if (((words[link + 1] ^ high) & ~FROZEN) === 0) this.setNode(child, node);
        next = child + 1;
        return;
      }
    });
  }

  /** As `NodeArena.descend`, from this node on, in all arenas. */
  descend(request: RoutedRequest): CachedNode {
    let node = this.#arena.descend(this.#at, request);
    while (request.leaf === 0) {
      const next = node.#nodes[request.child];
      if (next === undefined) break;
      // The child was moved after the node, which does not have its new offset yet.
      if (next.#arena === node.#arena) node.#lead(request.child, next);
      node = next.#arena.descend(next.#at, request);
    }
    return node;
  }

  /** Moves to another arena, unless it is there. */
  moveTo(arena: NodeArena): void {
    const from = this.#arena;
    if (from === arena) return;
    this.#at = arena.copy(from, this.#at, this.#words);
    arena.words[this.#at + NUMBER] = arena.nodes.push(this) - 1;
    this.#arena = arena;
    this.#nodes.forEach((node, child) => {
      this.#lead(child, node);
    });
  }

  /** Adds the children that are remembered. */
  pushChildren(to: CachedNode[]): void {
    for (const node of this.#nodes) if (node !== undefined) to.push(node);
  }
}

/*
 * A remembered node has its separators as numbers, so that a search takes few comparisons: 31 bits
 * of the four bytes behind their shared prefix, and a second number from the next bytes. The search
 * compares whole keys only where both numbers are the same.
 */

/** Whole bytes in such a number: it lacks one bit of the fourth byte. */
const PREFIX_BYTES = 3;

/** Length of the prefix that all separators share: they ascend, so that of the first and last. */
function sharedBytes(separators: PackedSeparators): number {
  const { bytes, ends, length } = separators;
  if (length < 2) return 0;
  const last = separators.begin(length - 1);
  const most = Math.min(ends[0], ends[length - 1] - last);
  let shared = 0;
  while (shared < most && bytes[shared] === bytes[last + shared]) shared++;
  return shared;
}

/** The upper 31 bits of the four bytes from `at` on, as a number; zeros behind the end. */
function prefixAt(key: Uint8Array, at: number, end: number): number {
  if (at + 4 <= end) {
    return ((key[at] << 24) | (key[at + 1] << 16) | (key[at + 2] << 8) | key[at + 3]) >>> 1;
  }
  let number = 0;
  for (let i = at; i < at + 4; i++) number = (number << 8) | (i < end ? key[i] : 0);
  return number >>> 1;
}

/**
 * How many of `count` ascending numbers are below this one. Branch-free, because the processor
 * could not predict the branches: numbers have 31 bits, so a difference's highest bit is its sign.
 */
function countBelow(words: Int32Array, at: number, count: number, number: number): number {
  if (count === 0) return 0;
  let low = at;
  for (let left = count; left > 1; ) {
    const half = left >> 1;
    low += half & ((words[low + half - 1] - number) >> 31);
    left -= half;
  }
  return low - at - ((words[low] - number) >> 31);
}
