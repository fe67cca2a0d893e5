import { pad8 } from '../../records/layout.ts';
import { type Scratch, setWord, UNIT_BYTES } from '../../verbs/index.ts';
import { compareKeys } from './keys.ts';

/**
 * An internal node. Only its links change, and those by CAS; a node with other children is another
 * node.
 *
 *   0   identity, or the link to what replaced it, or UP
 *   8   number of children 32 | unused 32
 *   16  a link for each child, 8 bytes
 *       where each separator ends among the separators' bytes, 4 bytes, padded to 8
 *       the separators, one behind the other: the lowest key of each child but the first
 *
 * A node takes a power of two of units, which its link says: one READ whatever the keys' length.
 */
export const CHILDREN_AT = 8;
export const LINKS_AT = 16;
/** The largest node: 128 KiB, room for two children and the longest separator. */
const UNITS_MAX = 2048;
export const NODE_BYTES_MAX = UNITS_MAX * UNIT_BYTES;

/** What an internal node says, outside of the pool. */
export interface Routes {
  /** Two halves for each child. */
  readonly links: Int32Array;
  /** One fewer than children. */
  readonly separators: readonly Uint8Array[];
}

export function nodeBytes(children: number, keyBytes: number): number {
  return LINKS_AT + 8 * children + pad8(4 * (children - 1)) + pad8(keyBytes);
}

/** The logarithm of the units that such a node takes. */
export function sizeOf({ links, separators }: Routes): number {
  const keyBytes = separators.reduce((sum, { length }) => sum + length, 0);
  const units = Math.ceil(nodeBytes(links.length / 2, keyBytes) / UNIT_BYTES);
  return Math.ceil(Math.log2(units));
}

export function encodeNode({ links, separators }: Routes, image: Scratch, at = 0): void {
  const children = links.length / 2;
  setWord(image, at + CHILDREN_AT, children, 0);
  image.i32.set(links, (at + LINKS_AT) >> 2);
  const endsAt = at + LINKS_AT + 8 * children;
  const keysAt = endsAt + pad8(4 * separators.length);
  let end = 0;
  for (let i = 0; i < separators.length; i++) {
    image.u8.set(separators[i], keysAt + end);
    end += separators[i].length;
    image.i32[(endsAt >> 2) + i] = end;
  }
}

/** Cut up from a READ of the whole node that is known to be one. */
export function decodeNode({ i32, u8 }: Scratch): Routes {
  const children = i32[CHILDREN_AT >> 2];
  const links = i32.slice(LINKS_AT >> 2, (LINKS_AT >> 2) + 2 * children);
  const endsAt = LINKS_AT + 8 * children;
  const keysAt = endsAt + pad8(4 * (children - 1));
  const separators: Uint8Array[] = [];
  let begin = 0;
  for (let i = 0; i < children - 1; i++) {
    const end = i32[(endsAt >> 2) + i];
    separators.push(u8.slice(keysAt + begin, keysAt + end));
    begin = end;
  }
  return { links, separators };
}

/** The child whose range the key is in: behind the separators that are not above it. */
export function childFor(
  separators: readonly Uint8Array[],
  key: Uint8Array,
  at: number,
  bytes: number,
): number {
  let low = 0;
  let high = separators.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const separator = separators[middle];
    if (compareKeys(separator, 0, separator.length, key, at, bytes) <= 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Cuts the routes into nodes that have at most `fanout` children and fit; the separators between
 * them are for the level above.
 */
export function cutRoutes(
  { links, separators }: Routes,
  fanout: number,
): { nodes: Routes[]; between: Uint8Array[] } {
  const children = links.length / 2;
  const pieces = Math.ceil(children / fanout);
  const most = Math.ceil(children / pieces);
  const nodes: Routes[] = [];
  const between: Uint8Array[] = [];
  for (let first = 0; first < children; ) {
    const count = fitting(separators, first, Math.min(most, children - first));
    nodes.push({
      links: links.slice(2 * first, 2 * (first + count)),
      separators: separators.slice(first, first + count - 1),
    });
    first += count;
    if (first < children) between.push(separators[first - 1]);
  }
  return { nodes, between };
}

/** How many children from `first` on, of `most`, fit a node with their separators. */
function fitting(separators: readonly Uint8Array[], first: number, most: number): number {
  let keyBytes = 0;
  for (let count = 1; count < most; count++) {
    keyBytes += separators[first + count - 1].length;
    if (nodeBytes(count + 1, keyBytes) > NODE_BYTES_MAX) return count;
  }
  return most;
}
