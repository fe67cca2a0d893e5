import { invariant } from '../../errors.ts';
import { packFields } from '../control.ts';

/** Recycled: its bytes are stale. */
export const CHUNK_FREE = 1;
/** Carved into blocks of one size for one store. Any client may claim free blocks of it. */
export const CHUNK_BLOCKS = 2;
/** Part of a contiguous run that belongs to an index. */
export const CHUNK_SPAN = 3;
/** Recycled and taken. Its state bytes are not zero yet, so no client may claim its blocks. */
export const CHUNK_PREPARING = 4;
/** Intent slots of a group of clients: see intents/intent-slots.ts. */
export const CHUNK_INTENTS = 5;
/** Its owner is about to recycle it, because no block of it is in use: emptied-chunks.ts. */
export const CHUNK_EMPTIED = 6;
/**
 * Carved into blocks, as CHUNK_BLOCKS, but no client claims them: a store evicts the chunk's
 * records so that it can serve another size. Any client may continue that, or end it.
 */
export const CHUNK_DRAINING = 7;

/** The client that owns a chunk; owner 0 for chunks of blocks, which none owns. */
export interface ChunkOwner {
  owner: number;
  incarnation: number;
}

export interface ChunkWord extends ChunkOwner {
  state: number;
  /** Row of the catalog whose store the chunk serves. */
  catalog: number;
  /** Lines of a block; for a span, of which kind it is; for intent slots, their group. */
  units: number;
  /**
   * How many of its blocks are free. A client that dies leaves this hint too high by the
   * blocks that it was about to claim or to free.
   */
  free: number;
}

/** Bits of state, catalog, units and owner; 8 unused ones follow. */
const FIELDS = [4, 8, 16, 12] as const;
/**
 * The highest bits are the owner's incarnation or, for chunks of blocks, the count of free blocks.
 * The count is the highest field, so that clients can change it by FAA: a carry is lost.
 */
const TOP_SHIFT = 48n;

export function packChunk(word: ChunkWord): bigint {
  const { state, catalog, units, owner, incarnation, free } = word;
  const fits = owner < 2 ** FIELDS[3] && catalog < 2 ** FIELDS[1] && units < 2 ** FIELDS[2];
  invariant(fits, 'the word of a chunk has no room for its owner, store or block size');
  const low = packFields([state, catalog, units, owner], FIELDS);
  const top = isCarved(state) ? free : incarnation;
  return low | (BigInt.asUintN(16, BigInt(top)) << TOP_SHIFT);
}

/** Works on halves, because every claim unpacks a word and each step on a BigInt allocates. */
export function unpackChunk(word: bigint): ChunkWord {
  const low = Number(BigInt.asUintN(32, word));
  const high = Number(BigInt.asIntN(64, word) >> 32n);
  const state = low & 0xf;
  const counts = isCarved(state);
  return {
    state,
    catalog: (low >>> 4) & 0xff,
    units: (low >>> 12) & 0xffff,
    owner: (low >>> 28) | ((high & 0xff) << 4),
    incarnation: counts ? 0 : high >>> 16,
    free: counts ? high >> 16 : 0,
  };
}

/** Whether clients write this state; any other one is damage. */
export function isKnownState(state: number): boolean {
  return state >= CHUNK_FREE && state <= CHUNK_DRAINING;
}

/** Whether blocks of such a chunk may be in use. */
export function holdsBlocks(state: number): boolean {
  return state === CHUNK_BLOCKS || state === CHUNK_DRAINING;
}

/**
 * Whether the chunk is carved into blocks. In a chunk that a client is about to recycle, some may
 * be in use: another client has claimed them meanwhile, or the count was too high.
 */
export function isCarved(state: number): boolean {
  return holdsBlocks(state) || state === CHUNK_EMPTIED;
}

/** Whether the chunk is carved into blocks of this size for this store. */
export function isFor(catalog: number, units: number, word: ChunkWord): boolean {
  return isCarved(word.state) && word.catalog === catalog && word.units === units;
}

/** Whether the low half of a chunk's word says that it is carved into blocks for this use. */
export function isOfUse(low: number, use: number): boolean {
  return isCarved(low & 0xf) && useOf((low >>> 4) & 0xff, (low >>> 12) & 0xffff) === use;
}

/** Added to a chunk's word when `count` of its blocks come free; negative for a claim. */
export function freeBlocks(count: number): bigint {
  return BigInt(count) << TOP_SHIFT;
}

/** A use is a store and a block size: chunks of the same use are interchangeable. */
export function useOf(catalog: number, units: number): number {
  return catalog * 65536 + units;
}

/** The word of a chunk of blocks that no client owns. */
export function blocksWord(catalog: number, units: number, free: number): ChunkWord {
  return { state: CHUNK_BLOCKS, catalog, units, owner: 0, incarnation: 0, free };
}

/** The word of a chunk that a client owns. */
export function ownedWord(
  state: number,
  catalog: number,
  units: number,
  client: ChunkOwner,
): ChunkWord {
  // Recovery looks for chunks by owner, so a chunk of owner 0 would never be recovered.
  invariant(state === CHUNK_FREE || client.owner > 0, 'a client without a row owns a chunk');
  return { state, catalog, units, ...client, free: 0 };
}

/** The word of a chunk that is free for any use. */
export const RECYCLED = packChunk(ownedWord(CHUNK_FREE, 0, 0, { owner: 0, incarnation: 0 }));
