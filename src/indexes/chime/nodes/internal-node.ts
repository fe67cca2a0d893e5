import { invariant, StepwellError } from '../../../errors.ts';
import { pad8 } from '../../../records/layout.ts';
import { type Scratch, setWord, UNIT_BYTES } from '../../../verbs/index.ts';
import { compareKeys } from './keys.ts';
import { isInternal, type Link, sizeOfLink } from './link.ts';

const LOOP_BYTES_MAX = 32;

/**
 * An internal node. Clients change only its links and its marked pair, by CAS. To add or remove
 * children, they replace the node.
 *
 *   0   identity, or the link to what replaced it, or UP
 *   8   number of children 32 | pair 32: the left child of two to merge, counted from 1, or 0; and
 *       PAIR_FROZEN
 *   16  a link for each child, 8 bytes
 *       where each separator ends among the separators' bytes, 4 bytes, padded to 8
 *       the separators, one behind the other: the lowest key of each child but the first
 *
 * A node's size is a power of two of units, and its link names the size: so one READ is enough,
 * however long the keys are. Its block may be longer: see `blockSizeOf`.
 */
export const CHILDREN_AT = 8;
export const LINKS_AT = 16;
/** The largest node: 128 KiB, room for two children and the longest separator. */
const UNITS_MAX = 2048;
export const NODE_BYTES_MAX = UNITS_MAX * UNIT_BYTES;
/** The logarithm of the largest node's units. */
export const NODE_SIZE_MAX = Math.log2(UNITS_MAX);
/**
 * The same for the smallest block: 4 KiB, enough for 64 children in most trees, so that few trees
 * use two block sizes. Each size needs chunks of its own, and a full pool has none to spare.
 */
const BLOCK_SIZE_MIN = 6;

/** How full a cut leaves the first nodes if keys ascend: so the last one is not under-full. */
const FULL_SHARE = 0.75;

/** In the word of the pair: the node is being replaced. */
export const PAIR_FROZEN = 1 << 31;

/** What a client remembers of an internal node. */
export interface PackedRoutes {
  /** Two halves for each child. */
  readonly links: Int32Array;
  /** One fewer than children. */
  readonly separators: PackedSeparators;
}

/** The contents of an internal node, decoded. */
export interface Routes extends PackedRoutes {
  /** The left child of two to merge, counted from 1; 0 for none. */
  readonly pair: number;
}

export function nodeBytes(children: number, keyBytes: number): number {
  return LINKS_AT + 8 * children + pad8(4 * (children - 1)) + pad8(keyBytes);
}

/** The logarithm of the units that such a node takes. */
export function sizeOf({ links, separators }: PackedRoutes): number {
  return sizeFor(nodeBytes(links.length / 2, separators.bytes.length));
}

/** The logarithm of the units that this many bytes take. */
export function sizeFor(bytes: number): number {
  return Math.ceil(Math.log2(Math.ceil(bytes / UNIT_BYTES)));
}

/** The logarithm of the units of the block that a node of this size takes. */
export function blockSizeOf(size: number): number {
  return Math.max(BLOCK_SIZE_MIN, size);
}

export function encodeNode({ links, separators, pair }: Routes, image: Scratch, at = 0): void {
  const children = links.length / 2;
  const areBetween = children > 0 && separators.length === children - 1;
  invariant(areBetween, 'a node has no separator between two of its children');
  invariant(pair >= 0 && pair < children, 'a node marks a pair that it does not have');
  setWord(image, at + CHILDREN_AT, children, pair);
  image.i32.set(links, (at + LINKS_AT) >> 2);
  image.i32.set(separators.ends, (at >> 2) + endsAtOf(children));
  image.u8.set(separators.bytes, at + keysAtOf(children));
}

/** A child to add: the lowest key below it, and the link to it. */
export interface NewChild {
  readonly link: Link;
  readonly separator: Uint8Array;
}

/** Bytes of a node that was read, plus these children. */
export function splicedBytes({ i32 }: Scratch, added: readonly NewChild[]): number {
  const children = i32[CHILDREN_AT >> 2];
  let keyBytes = children > 1 ? i32[endsAtOf(children) + children - 2] : 0;
  for (const { separator } of added) keyBytes += separator.length;
  return nodeBytes(children + added.length, keyBytes);
}

/**
 * Encodes a copy of a node that was read, with more children behind one of its own, and no pair. It
 * copies three ranges: decoding and encoding 64 children takes five times as long.
 */
export function spliceNode(
  from: Scratch,
  child: number,
  added: readonly NewChild[],
  to: Scratch,
  at: number,
): void {
  const before = childrenIn(from);
  const children = before + added.length;
  // The copy would lose the mark.
  invariant(pairIn(from) === 0 && child >= 0 && child < before, 'a marked node gets leaves');
  setWord(to, at + CHILDREN_AT, children, 0);
  const [oldEnds, newEnds] = [endsAtOf(before), (at >> 2) + endsAtOf(children)];
  const [oldKeys, newKeys] = [keysAtOf(before), at + keysAtOf(children)];
  let link = (LINKS_AT >> 2) + 2 * (child + 1);
  to.i32.set(from.i32.subarray(LINKS_AT >> 2, link), (at + LINKS_AT) >> 2);
  to.i32.set(from.i32.subarray(oldEnds, oldEnds + child), newEnds);
  to.i32.set(from.i32.subarray(link, oldEnds), (at >> 2) + link + 2 * added.length);
  const cut = child === 0 ? 0 : from.i32[oldEnds + child - 1];
  to.u8.set(from.u8.subarray(oldKeys, oldKeys + cut), newKeys);
  let end = cut;
  for (let i = 0; i < added.length; i++, link += 2) {
    const { separator } = added[i];
    setWord(to, at + 4 * link, added[i].link.low, added[i].link.high);
    copyShort(separator, to.u8, newKeys + end);
    end += separator.length;
    to.i32[newEnds + child + i] = end;
  }
  for (let i = child; i < before - 1; i++) {
    to.i32[newEnds + added.length + i] = from.i32[oldEnds + i] + end - cut;
  }
  const last = before > 1 ? from.i32[oldEnds + before - 2] : 0;
  to.u8.set(from.u8.subarray(oldKeys + cut, oldKeys + last), newKeys + end);
}

/** Encodes a copy of a node that was read, without one child (not the first) and with no pair. */
export function dropChild(from: Scratch, child: number, to: Scratch, at: number): void {
  const before = childrenIn(from);
  invariant(child > 0 && child < before, 'a node loses a child that it does not have');
  setWord(to, at + CHILDREN_AT, before - 1, 0);
  const [oldEnds, newEnds] = [endsAtOf(before), (at >> 2) + endsAtOf(before - 1)];
  const [oldKeys, newKeys] = [keysAtOf(before), at + keysAtOf(before - 1)];
  const first = LINKS_AT >> 2;
  const link = first + 2 * child;
  to.i32.set(from.i32.subarray(first, link), (at >> 2) + first);
  to.i32.set(from.i32.subarray(link + 2, oldEnds), (at >> 2) + link);
  const begin = child === 1 ? 0 : from.i32[oldEnds + child - 2];
  const end = from.i32[oldEnds + child - 1];
  const last = from.i32[oldEnds + before - 2];
  to.i32.set(from.i32.subarray(oldEnds, oldEnds + child - 1), newEnds);
  for (let i = child; i < before - 1; i++) {
    to.i32[newEnds + i - 1] = from.i32[oldEnds + i] - (end - begin);
  }
  to.u8.set(from.u8.subarray(oldKeys, oldKeys + begin), newKeys);
  to.u8.set(from.u8.subarray(oldKeys + end, oldKeys + last), newKeys + begin);
}

/** A loop, because most separators are so short that a call of the built-in takes longer. */
function copyShort(from: Uint8Array, to: Uint8Array, at: number): void {
  if (from.length > LOOP_BYTES_MAX) to.set(from, at);
  else for (let i = 0; i < from.length; i++) to[at + i] = from[i];
}

/**
 * Separators one behind the other, as they stand in a node: an object for each would take more room
 * in the cache, and more time to make and to collect.
 */
export class PackedSeparators {
  readonly bytes: Uint8Array;
  /** Where each ends. */
  readonly ends: Int32Array;

  constructor(bytes: Uint8Array, ends: Int32Array) {
    this.bytes = bytes;
    this.ends = ends;
  }

  static of(separators: readonly Uint8Array[]): PackedSeparators {
    const ends = new Int32Array(separators.length);
    let end = 0;
    for (let i = 0; i < separators.length; i++) {
      end += separators[i].length;
      ends[i] = end;
    }
    const bytes = new Uint8Array(end);
    for (let i = 0; i < separators.length; i++) {
      copyShort(separators[i], bytes, ends[i] - separators[i].length);
    }
    return new PackedSeparators(bytes, ends);
  }

  get length(): number {
    return this.ends.length;
  }

  begin(i: number): number {
    return i === 0 ? 0 : this.ends[i - 1];
  }

  /** A copy of one separator. */
  at(i: number): Uint8Array {
    return this.bytes.slice(this.begin(i), this.ends[i]);
  }

  /** Copies of all separators. */
  list(): Uint8Array[] {
    return Array.from(this.ends, (_, i) => this.at(i));
  }

  /** Bytes of the separators between some children of a node. */
  bytesBetween(first: number, children: number): number {
    return this.begin(first + children - 1) - this.begin(first);
  }

  /** The child to which a key belongs: see `childIn`. */
  childOf(key: Uint8Array, at: number, bytes: number): number {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const begin = this.begin(middle);
      const length = this.ends[middle] - begin;
      if (compareKeys(this.bytes, begin, length, key, at, bytes) <= 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Some children of a node: `count` from `first` on. */
export interface Children {
  readonly routes: Routes;
  readonly first: number;
  readonly count: number;
}

export function allOf(routes: Routes): Children {
  return { routes, first: 0, count: routes.links.length / 2 };
}

/** Whether these children have the left one of a marked pair. */
export function haveMark({ routes: { pair }, first, count }: Children): boolean {
  return pair > first && pair <= first + count;
}

/**
 * The routes to children of several nodes, with these separators between the parts, and with the
 * mark of one of the parts. It copies ranges: an object for each of 64 children takes five times as
 * long.
 */
export function joinRoutes(parts: readonly Children[], between: readonly Uint8Array[]): Routes {
  invariant(between.length === parts.length - 1, 'no separator is between two parts of a node');
  let children = 0;
  let keyBytes = 0;
  for (const { routes, first, count } of parts) {
    children += count;
    keyBytes += routes.separators.bytesBetween(first, count);
  }
  for (const { length } of between) keyBytes += length;
  const links = new Int32Array(2 * children);
  const ends = new Int32Array(children - 1);
  const bytes = new Uint8Array(keyBytes);
  let [child, end, pair] = [0, 0, 0];
  for (let part = 0; part < parts.length; part++) {
    const { routes, first, count } = parts[part];
    const { separators } = routes;
    if (part > 0) {
      copyShort(between[part - 1], bytes, end);
      end += between[part - 1].length;
      ends[child - 1] = end;
    }
    links.set(routes.links.subarray(2 * first, 2 * (first + count)), 2 * child);
    const begin = separators.begin(first);
    bytes.set(separators.bytes.subarray(begin, separators.begin(first + count - 1)), end);
    for (let i = 0; i < count - 1; i++) ends[child + i] = end + separators.ends[first + i] - begin;
    end += separators.bytesBetween(first, count);
    if (haveMark(parts[part])) pair = child + routes.pair - first;
    child += count;
  }
  return { links, separators: new PackedSeparators(bytes, ends), pair };
}

/** The routes with more children behind one. A mark of that one names it and the first new one. */
export function withChildren(routes: Routes, child: number, added: readonly NewChild[]): Routes {
  if (added.length === 0) return routes;
  const keys = added.map(({ separator }) => separator);
  const links = Int32Array.from(added.flatMap(({ link: { low, high } }) => [low, high]));
  const more = { links, separators: PackedSeparators.of(keys.slice(1)), pair: 0 };
  const behind = child + 1;
  const parts = [{ routes, first: 0, count: behind }, allOf(more)];
  const rest = routes.links.length / 2 - behind;
  if (rest === 0) return joinRoutes(parts, [keys[0]]);
  parts.push({ routes, first: behind, count: rest });
  return joinRoutes(parts, [keys[0], routes.separators.at(child)]);
}

/** Decodes a whole node at `at`, which was read and checked, or is about to be written. */
export function decodeNode({ i32, u8 }: Scratch, at = 0): Routes {
  const children = i32[(at + CHILDREN_AT) >> 2];
  const ends = 4 * endsAtOf(children) - LINKS_AT;
  const keys = keysAtOf(children) - LINKS_AT;
  const last = (at + LINKS_AT + ends) >> 2;
  const keyBytes = children > 1 ? i32[last + children - 2] : 0;
  // One allocation, because each takes as long as all of the copying.
  const { buffer } = u8.slice(at + LINKS_AT, at + LINKS_AT + keys + keyBytes);
  const links = new Int32Array(buffer, 0, 2 * children);
  const bytes = new Uint8Array(buffer, keys, keyBytes);
  return {
    links,
    separators: new PackedSeparators(bytes, new Int32Array(buffer, ends, children - 1)),
    pair: i32[((at + CHILDREN_AT) >> 2) + 1] & ~PAIR_FROZEN,
  };
}

/** Bytes of the node that a link leads to. Raises SW_POOL_CORRUPT for an impossible size. */
export function bytesOfNode({ high }: Pick<Link, 'high'>): number {
  const size = sizeOfLink(high);
  invariant(size <= NODE_SIZE_MAX, 'a link names an impossible size of a node');
  return UNIT_BYTES << size;
}

/**
 * Checks a node that was read. Raises SW_POOL_CORRUPT unless everything lies within its `bytes`,
 * and its children are all leaves or all internal nodes.
 */
export function checkNode(image: Scratch, bytes: number): void {
  if (isWithin(image, bytes) && areAlike(image)) return;
  const what = `an internal node says that it has ${childrenIn(image)} children`;
  const why = 'they do not fit it, or lead to leaves and to internal nodes';
  throw new StepwellError('SW_POOL_CORRUPT', `${what}: ${why}`);
}

function isWithin(image: Scratch, bytes: number): boolean {
  const children = childrenIn(image);
  if (children < 1 || nodeBytes(children, 0) > bytes) return false;
  const ends = endsAtOf(children);
  let end = 0;
  for (let i = 0; i < children - 1; i++) {
    if (image.i32[ends + i] < end) return false;
    end = image.i32[ends + i];
  }
  return nodeBytes(children, end) <= bytes;
}

function areAlike({ i32 }: Scratch): boolean {
  const first = (LINKS_AT >> 2) + 1;
  const end = endsAtOf(i32[CHILDREN_AT >> 2]);
  for (let high = first + 2; high < end; high += 2) {
    if (isInternal(i32[high]) !== isInternal(i32[first])) return false;
  }
  return true;
}

/** Index of the first word of the separators' ends. */
function endsAtOf(children: number): number {
  return (LINKS_AT >> 2) + 2 * children;
}

/** Offset of the separators' bytes. */
function keysAtOf(children: number): number {
  return LINKS_AT + 8 * children + pad8(4 * (children - 1));
}

/** The marked pair of a node that was read, without PAIR_FROZEN. */
export function pairIn({ i32 }: Pick<Scratch, 'i32'>): number {
  return i32[(CHILDREN_AT >> 2) + 1] & ~PAIR_FROZEN;
}

export function isPairFrozen({ i32 }: Scratch): boolean {
  return i32[(CHILDREN_AT >> 2) + 1] < 0;
}

/** Children of a node that was read. */
export function childrenIn({ i32 }: Scratch): number {
  return i32[CHILDREN_AT >> 2];
}

/** The link to a child of a node that was read. */
export function linkIn({ i32 }: Scratch, child: number): { low: number; high: number } {
  const word = (LINKS_AT >> 2) + 2 * child;
  return { low: i32[word], high: i32[word + 1] };
}

/** All links of a node that was read: a view of the image. */
export function linksIn({ i32 }: Scratch): Int32Array {
  return i32.subarray(LINKS_AT >> 2, endsAtOf(i32[CHILDREN_AT >> 2]));
}

/** A separator of a node that was read. */
export function separatorIn({ i32, u8 }: Scratch, i: number): Uint8Array {
  const children = i32[CHILDREN_AT >> 2];
  const ends = (LINKS_AT >> 2) + 2 * children;
  const keysAt = keysAtOf(children);
  return u8.slice(keysAt + (i === 0 ? 0 : i32[ends + i - 1]), keysAt + i32[ends + i]);
}

/**
 * The child, in a node that was read, to which a key belongs: behind all separators up to and
 * including the key.
 */
export function childIn({ i32, u8 }: Scratch, key: Uint8Array, at: number, bytes: number): number {
  const children = i32[CHILDREN_AT >> 2];
  const ends = (LINKS_AT >> 2) + 2 * children;
  const keysAt = keysAtOf(children);
  let low = 0;
  let high = children - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const begin = middle === 0 ? 0 : i32[ends + middle - 1];
    const length = i32[ends + middle] - begin;
    if (compareKeys(u8, keysAt + begin, length, key, at, bytes) <= 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Divides routes among nodes of at most `fanout` children that fit a block; `between` is for the
 * level above. A marked pair stays together, if need be with one child more or less. If keys
 * ascend, the first nodes become three quarters full, because they get no more children.
 */
export function cutRoutes(
  routes: Routes,
  fanout: number,
  ascends = false,
): { nodes: Routes[]; between: Uint8Array[] } {
  const { links, separators, pair } = routes;
  const children = links.length / 2;
  const pieces = Math.ceil(children / fanout);
  const even = Math.ceil(children / pieces);
  const most = ascends && pieces > 1 ? Math.max(even, Math.ceil(FULL_SHARE * fanout)) : even;
  const nodes: Routes[] = [];
  const between: Uint8Array[] = [];
  for (let first = 0; first < children; ) {
    let count = fitting(separators, first, Math.min(most, children - first));
    if (first + count === pair) count += count > 1 ? -1 : 1;
    nodes.push(joinRoutes([{ routes, first, count }], []));
    first += count;
    if (first < children) between.push(separators.at(first - 1));
  }
  return { nodes, between };
}

/** Whether `cutRoutes` leaves the routes whole. */
export function fitOneNode({ links, separators }: PackedRoutes, fanout: number): boolean {
  const children = links.length / 2;
  return children <= fanout && fitting(separators, 0, children) === children;
}

/** How many children from `first` on, at most `most`, fit one node with their separators. */
function fitting(separators: PackedSeparators, first: number, most: number): number {
  let count = 1;
  const fits = (more: number) => {
    return nodeBytes(more, separators.bytesBetween(first, more)) <= NODE_BYTES_MAX;
  };
  if (fits(most)) return most;
  while (fits(count + 1)) count++;
  return count;
}
