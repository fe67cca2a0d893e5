import { finalMix } from '../../records/hash.ts';
import { type Address, UNIT_BYTES } from '../../verbs/index.ts';

/**
 * A link is 8 bytes and points to a node of the tree: a child of an internal node, the root, or
 * what has replaced a node.
 *
 *   low half    pointer bits 0-31, in 64-byte units
 *   high half   tag 16-31 | size 12-15 | UP, MERGE 11 | ABSORB 10 | INTERNAL 9 | FROZEN 8
 *               | pointer 32-39
 *
 * The tag is the epoch in which the node was made. Two nodes that stand in one block one after the
 * other have different tags, because epochs pass before a block is used again.
 */
export const FROZEN = 1 << 8;
export const INTERNAL = 1 << 9;
/** An internal node that its parent takes up when it is next rebuilt: what a split leaves. */
export const ABSORB = 1 << 10;
/** In the first word of a node: its parent, which is frozen, is taking it up. No pointer. */
export const UP = 1 << 11;
/**
 * In the link of a child: it and the child behind it become one when the node is next rebuilt. The
 * same bit as UP, which is in no link.
 */
export const MERGE = 1 << 11;
/** What a link says besides where it leads. */
export const MARKS = FROZEN | MERGE;
/**
 * Bits that in a tree are 0 in a link to a leaf, and in a hash table say how many bits of their
 * hashes its keys have in common.
 */
export const LEAF_FLAGS = (0xf << 12) | ABSORB;
const SIZE_SHIFT = 12;
const TAG_SHIFT = 16;
export const TAG_VALUES = 2 ** 16;

export function linkLow(address: Address): number {
  return (address / UNIT_BYTES) | 0;
}

/** `size` is the logarithm of an internal node's units; a leaf's size is in the parameters. */
export function linkHigh(address: Address, flags: number, size: number, tag: number): number {
  const pointer = Math.floor(address / UNIT_BYTES / 2 ** 32);
  return pointer | flags | (size << SIZE_SHIFT) | (tag << TAG_SHIFT);
}

export function addressOfLink(low: number, high: number): Address {
  return ((high & 0xff) * 2 ** 32 + (low >>> 0)) * UNIT_BYTES;
}

export function sizeOfLink(high: number): number {
  return (high >>> SIZE_SHIFT) & 0xf;
}

/**
 * The first word of a node that is in use: what nobody can guess who does not know the seed, so
 * that a cached link to a block that holds something else by now is found out. A node that was
 * replaced has the link to its replacement there instead.
 */
export function identityLow(low: number, high: number, seed: number): number {
  return finalMix(low ^ finalMix(seed + (high & ~MARKS)));
}

export function identityHigh(low: number, high: number, seed: number): number {
  return finalMix((high & ~MARKS) ^ finalMix(Math.imul(seed, 0x9e3779b1) + low));
}
