import { invariant } from '../../../errors.ts';
import { finalMix } from '../../../records/hash.ts';
import { type Address, UNIT_BYTES } from '../../../verbs/index.ts';

/**
 * A link is 8 bytes and points to a node of the tree: a child of an internal node, the root, the
 * sibling of a leaf, or what has replaced an internal node.
 *
 *   low half    pointer bits 0-31, in 64-byte units
 *   high half   tag 16-31 | size 12-15 | UP 11 | ABSORB 10 | INTERNAL 9 | FROZEN 8 | pointer 32-39
 *
 * The tag is the epoch in which the node was made. Successive nodes in one block have different
 * tags, because epochs pass before a block is reused.
 */
export const FROZEN = 1 << 8;
export const INTERNAL = 1 << 9;
/** An internal node that a cut has left: its parent absorbs it at the parent's next rebuild. */
export const ABSORB = 1 << 10;
/** In the first word of a node, without a pointer: its frozen parent is absorbing it. */
export const UP = 1 << 11;
/** The bits of a word that do not belong to a leaf's pointer or tag. */
const BESIDE = 0xff00;
const SIZE_SHIFT = 12;
const TAG_SHIFT = 16;
export const TAG_VALUES = 2 ** 16;

export interface Link {
  low: number;
  high: number;
}

export function linkLow(address: Address): number {
  return (address / UNIT_BYTES) | 0;
}

/** `size` is the logarithm of an internal node's units; a leaf's size is in the parameters. */
export function linkHigh(address: Address, flags: number, size: number, tag: number): number {
  const pointer = Math.floor(address / UNIT_BYTES / 2 ** 32);
  const fits = pointer <= 0xff && size <= 0xf && tag >= 0 && tag < TAG_VALUES;
  invariant(address > 0 && fits, 'a link cannot name this node');
  return pointer | flags | (size << SIZE_SHIFT) | (tag << TAG_SHIFT);
}

export function leafLink(address: Address, tag: number): Link {
  return { low: linkLow(address), high: linkHigh(address, 0, 0, tag) };
}

export function addressOfLink(low: number, high: number): Address {
  return ((high & 0xff) * 2 ** 32 + (low >>> 0)) * UNIT_BYTES;
}

export function sizeOfLink(high: number): number {
  return (high >>> SIZE_SHIFT) & 0xf;
}

export function tagOfLink(high: number): number {
  return high >>> TAG_SHIFT;
}

/** The high half of a link to a leaf, without other bits of the word. */
export function bareLeafHigh(high: number): number {
  return high & ~BESIDE;
}

export function isInternal(high: number): boolean {
  return (high & INTERNAL) !== 0;
}

/** Whether two words lead to the same leaf. */
export function isSameLeaf(
  low: number,
  high: number,
  otherLow: number,
  otherHigh: number,
): boolean {
  return low === otherLow && ((high ^ otherHigh) & ~BESIDE) === 0;
}

/**
 * The first word of an internal node in use. A client that does not know the seed cannot forge it,
 * so a reader notices when a remembered link leads to a block that holds something else by now. A
 * replaced node has the link to its replacement there instead.
 */
export function nodeIdentityLow(low: number, high: number, seed: number): number {
  return finalMix(low ^ finalMix(seed + (high & ~FROZEN)));
}

export function nodeIdentityHigh(low: number, high: number, seed: number): number {
  return finalMix((high & ~FROZEN) ^ finalMix(Math.imul(seed, 0x9e3779b1) + low));
}
