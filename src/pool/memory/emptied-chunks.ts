import { invariant } from '../../errors.ts';
import { Batch, CAS_BYTES, type Operation, Scratch, swapped } from '../../verbs/index.ts';
import type { Membership } from '../clients/membership.ts';
import type { Reclamation } from '../clients/reclamation.ts';
import { control } from '../control.ts';
import { blocksPerChunk, type PoolLayout, stateMapBytes } from '../layout.ts';
import type { Allocator } from './allocator.ts';
import { BLOCK_FREE, BLOCK_LOCKED } from './block-state.ts';
import {
  CHUNK_BLOCKS,
  CHUNK_EMPTIED,
  type ChunkWord,
  holdsBlocks,
  packChunk,
} from './chunk-word.ts';
import type { ChunkTable } from './chunks.ts';

/** The parts of a pool that recycling uses. */
export interface PoolOfChunks {
  readonly layout: PoolLayout;
  readonly membership: Membership;
  readonly chunks: ChunkTable;
  readonly allocator: Allocator;
  readonly reclamation: Reclamation;
}

/** Attempts to replace a chunk's word while other clients change it. */
const SWAPS_MAX = 64;

/**
 * Recycles up to `most` chunks that have no block in use, so that they can serve any store and
 * size. A client calls it between operations, in an epoch that it has announced.
 *
 * 1. CAS of the chunk's word to CHUNK_EMPTIED, with this client as its owner. Clients that read the
 *    word from now on claim no blocks of the chunk.
 * 2. CAS of each word of state bytes from free to BLOCK_LOCKED. If one fails, another client has
 *    claimed a block meanwhile. Then this client unlocks the words and makes the chunk CHUNK_BLOCKS
 *    again.
 * 3. Retire the chunk. Three epochs later it is free for any use.
 *
 * Why three epochs. A client reads the chunk's word before each claim, and claims within the epoch
 * that it had announced. So a client that read the word before step 1 may try its CAS after step 2.
 * The CAS fails as long as the bytes are locked. If the chunk went to another size at once, its new
 * state bytes, or data in their place, could match what that CAS expects.
 *
 * Why the word's count of free blocks cannot change in step 3. A client that frees a block counts
 * it before it marks it free, and a client that claims a block counts it before it uses it. So all
 * counts were made before step 2 found the state bytes free.
 *
 * Crash points. A client that dies leaves the chunk as CHUNK_EMPTIED with its id. Before it frees
 * the client's row, a recoverer unlocks the words and makes the chunk CHUNK_BLOCKS again
 * (`unlockEmptied`). If the recoverer dies, the next one continues.
 * `lab/verification/tests/shared-chunks.test.ts` stops and kills clients at each doorbell.
 */
export function* recycleEmptied(pool: PoolOfChunks, most: number): Operation<number> {
  const { allocator, chunks, reclamation } = pool;
  yield* chunks.survey.read();
  const { emptied } = chunks.survey;
  allocator.hasEmptied = emptied.length > most;
  let recycled = 0;
  for (const chunk of emptied.slice(0, most)) {
    if (allocator.isClaimingIn(chunk) && !allocator.isTight) continue;
    const catalog = yield* lock(pool, chunk);
    if (catalog === undefined) continue;
    reclamation.retireEmptied(chunk, catalog);
    recycled++;
  }
  return recycled;
}

/** Steps 1 and 2; returns the chunk's store, or undefined when a block is in use. */
function* lock(pool: PoolOfChunks, chunk: number): Operation<number | undefined> {
  const { allocator, chunks, membership } = pool;
  const word = yield* chunks.wordOf(chunk);
  const blocks = blocksPerChunk(word.units);
  if (!holdsBlocks(word.state) || word.free < blocks) return undefined;
  // Dead clients may have left the count too high. Resets it, lest it overflow.
  const emptied = { ...word, state: CHUNK_EMPTIED, owner: membership.id, free: blocks };
  if (!(yield* chunks.swap(chunk, packChunk(word), emptied))) return undefined;
  if (yield* lockBlocks(pool, chunk, word.units)) {
    const locked = yield* chunks.wordOf(chunk);
    // Only its owner changes its state, or a recoverer after the owner is gone.
    const isOwn = locked.state === CHUNK_EMPTIED && locked.owner === membership.id;
    invariant(isOwn, 'another client has taken a chunk that this one empties');
    invariant(locked.free >= blocks, 'a chunk without a block in use counts fewer free ones');
    allocator.noteEmptied(chunk, packChunk(locked));
    return word.catalog;
  }
  chunks.survey.noteOccupied(chunk, blocks);
  yield* restore(pool, chunk);
  return undefined;
}

/** Locks every block of the chunk, or none. */
function* lockBlocks(pool: PoolOfChunks, chunk: number, units: number): Operation<boolean> {
  const start = pool.layout.chunkStart(chunk);
  const words = lockedWords(units);
  const swaps = new Scratch(CAS_BYTES * words.length);
  const batch = new Batch();
  words.forEach((locked, i) => {
    swaps.i64[(CAS_BYTES * i + 8) >> 3] = locked;
    batch.cas(start + 8 * i, swaps, CAS_BYTES * i);
  });
  yield batch;
  const won = words.map((_, i) => i).filter((i) => swapped(swaps, CAS_BYTES * i));
  if (won.length === words.length) return true;
  yield* unlock(pool, chunk, won);
  return false;
}

/** The words of state bytes of a chunk in which all blocks are locked. */
function lockedWords(units: number): bigint[] {
  const blocks = blocksPerChunk(units);
  const bytes = new Uint8Array(8 * Math.ceil(blocks / 8)).fill(BLOCK_FREE);
  bytes.fill(BLOCK_LOCKED, 0, blocks);
  return [...new BigInt64Array(bytes.buffer)];
}

/** Unlocks by WRITEs: only the locker, or its recoverer, writes words of locked bytes. */
function* unlock(pool: PoolOfChunks, chunk: number, words: readonly number[]): Operation<void> {
  if (words.length === 0) return;
  const start = pool.layout.chunkStart(chunk);
  const zero = new Scratch(8);
  const batch = new Batch();
  for (const word of words) batch.write(start + 8 * word, 8, zero, 0);
  yield batch;
}

/**
 * Makes the chunk CHUNK_BLOCKS again. Retries, because clients that read its word earlier change
 * its count.
 */
function* restore({ chunks, membership }: PoolOfChunks, chunk: number, owner = membership.id) {
  for (let i = 0; i < SWAPS_MAX; i++) {
    const word: ChunkWord = yield* chunks.wordOf(chunk);
    if (word.state !== CHUNK_EMPTIED || word.owner !== owner) return;
    if (yield* chunks.swap(chunk, packChunk(word), { ...word, state: CHUNK_BLOCKS, owner: 0 })) {
      yield* chunks.announceNews();
      return;
    }
  }
}

/** Undoes a recycling that a dead client had begun. */
export function* unlockEmptied(pool: PoolOfChunks, chunk: number, owner: number): Operation<void> {
  const { state, units, owner: locker } = yield* pool.chunks.wordOf(chunk);
  if (state !== CHUNK_EMPTIED || locker !== owner) return;
  const start = pool.layout.chunkStart(chunk);
  const map = yield* control.readBytes(start, stateMapBytes(blocksPerChunk(units)));
  const locked = lockedWords(units);
  yield* unlock(
    pool,
    chunk,
    [...locked.keys()].filter((i) => map[8 * i] === BLOCK_LOCKED),
  );
  yield* restore(pool, chunk, owner);
}
