import type { Index } from '../../indexes/contract.ts';
import { control } from '../../pool/control.ts';
import { BLOCK_FREE } from '../../pool/memory/block-state.ts';
import {
  CHUNK_BLOCKS,
  CHUNK_DRAINING,
  type ChunkWord,
  holdsBlocks,
  packChunk,
} from '../../pool/memory/chunk-word.ts';
import { SizeClass } from '../../pool/memory/size-class.ts';
import { type Address, type Operation, UNIT_BYTES } from '../../verbs/index.ts';
import { type Attachment, inSection } from '../calls/attachment.ts';

/** Chunks to try before giving up, if none has a record that can be evicted. */
const VAIN_MAX = 8;
/** Most blocks that one payment looks at. */
const LOOKS_MAX = 64;
/** Attempts to replace a chunk's word while other clients change it. */
const SWAPS_MAX = 16;

/** Evicts the record that has this block; false when there is none, or it must stay. */
type EvictAt = (block: Address, units: number) => Operation<boolean>;

/** A chunk whose records are being evicted. */
interface Target {
  readonly chunk: number;
  readonly sizeClass: SizeClass;
  /** Its blocks that were in use. */
  blocks: readonly Address[];
  /** How many of these blocks it has tried. */
  seen: number;
  /** Records evicted since the chunk's state bytes were last read, and in all. */
  evictedInPass: number;
  evicted: number;
}

/**
 * Empties chunks, so that a store whose records change in size finds memory for blocks of another
 * size. Sampled victims would not do: they are scattered over the pool and empty no chunk.
 *
 * The store takes a chunk of the reserve at once, and owes the pool a chunk for it. With each write
 * it pays back about as many bytes as the write stores, by evicting the records of the emptiest
 * chunk of records, block by block. A block holds its record's key, and a search for the key tells
 * whether the record is still in the index. No client claims blocks of that chunk any more, and the
 * client that frees its last block recycles it.
 *
 * A client that dies or goes idle leaves the chunk as it is. Most of it is free then, so the next
 * client that owes a chunk picks it again.
 */
export class ChunkDrain {
  readonly #evictAt: EvictAt;
  readonly #attachment: Attachment;
  readonly #index: Index;
  #owed = 0;
  #target: Target | undefined;
  /** Chunks with blocks that could not be evicted. */
  readonly #stuck = new Set<number>();

  constructor(index: Index, attachment: Attachment, evictAt: EvictAt) {
    this.#evictAt = evictAt;
    this.#attachment = attachment;
    this.#index = index;
  }

  get owes(): boolean {
    return this.#owed > 0;
  }

  /** Whether more blocks of some size lie free than writes of that size will soon need. */
  get hasSlack(): boolean {
    return this.#attachment.pool.chunks.survey.hasSlack(this.#isOfRecords);
  }

  /** This client is about to take a chunk of the reserve. */
  owe(): void {
    this.#owed++;
  }

  /** Evicts at least so many bytes towards what it owes. */
  *pay(bytes: number): Operation<void> {
    if (this.#owed === 0) return;
    this.#target ??= yield* inSection(this.#attachment, () => this.#choose());
    if (this.#target === undefined || (yield* this.#evict(this.#target, bytes))) this.#owed--;
  }

  /** Evicts all records of one chunk; returns how many. */
  *drainOne(): Operation<number> {
    for (let vain = 0; vain < VAIN_MAX; vain++) {
      this.#target ??= yield* inSection(this.#attachment, () => this.#choose());
      const target = this.#target;
      if (target === undefined) return 0;
      yield* this.#evict(target, Number.POSITIVE_INFINITY);
      if (target.evicted > 0) return target.evicted;
    }
    return 0;
  }

  *#choose(): Operation<Target | undefined> {
    const { pool } = this.#attachment;
    const suits = (chunk: number, catalog: number, units: number) => {
      if (!this.#isOfRecords(catalog, units)) return false;
      return !this.#stuck.has(chunk) && !pool.allocator.isClaimingIn(chunk);
    };
    const chunk = yield* pool.chunks.survey.emptiest(pool.clock.chance, suits);
    if (chunk === undefined) {
      this.#stuck.clear();
      return undefined;
    }
    const word = yield* this.#mark(chunk, CHUNK_DRAINING);
    if (word === undefined) return undefined;
    pool.allocator.draining.add(chunk);
    const sizeClass = new SizeClass(word.catalog, word.units);
    const blocks = yield* this.#inUse(chunk, sizeClass);
    return { chunk, sizeClass, blocks, seen: 0, evictedInPass: 0, evicted: 0 };
  }

  readonly #isOfRecords = (catalog: number, units: number): boolean => {
    return catalog === this.#index.catalog && !this.#index.tableUnits.includes(units);
  };

  *#inUse(chunk: number, sizeClass: SizeClass): Operation<Address[]> {
    const start = this.#attachment.pool.layout.chunkStart(chunk);
    const states = yield* control.readBytes(start, sizeClass.mapBytes);
    const blocks: Address[] = [];
    for (let i = 0; i < sizeClass.blocks; i++) {
      if (states[i] !== BLOCK_FREE) blocks.push(sizeClass.blockAt(start, i));
    }
    return blocks;
  }

  /** Evicts at least so many bytes; returns whether the chunk is done. */
  *#evict(target: Target, bytes: number): Operation<boolean> {
    const { chunk, sizeClass } = target;
    const looksMax = bytes === Number.POSITIVE_INFINITY ? sizeClass.blocks : LOOKS_MAX;
    let evicted = 0;
    for (let looks = 0; evicted < bytes && looks < looksMax; looks++) {
      if (target.seen === target.blocks.length && !(yield* this.#lookAgain(target))) break;
      if (yield* this.#evictAt(target.blocks[target.seen++], sizeClass.units)) {
        evicted += sizeClass.units * UNIT_BYTES;
        target.evictedInPass++;
        target.evicted++;
      }
    }
    if (target.seen < target.blocks.length) return false;
    this.#target = undefined;
    this.#attachment.pool.allocator.draining.delete(chunk);
    if (target.evicted > 0) return true;
    this.#stuck.add(chunk);
    yield* inSection(this.#attachment, () => this.#mark(chunk, CHUNK_BLOCKS));
    return false;
  }

  /**
   * Another pass, after one that evicted something: clients that had claimed blocks of the chunk
   * ahead may have written records into them since.
   */
  *#lookAgain(target: Target): Operation<boolean> {
    if (target.evictedInPass === 0) return false;
    const { chunk, sizeClass } = target;
    target.blocks = yield* inSection(this.#attachment, () => this.#inUse(chunk, sizeClass));
    target.seen = 0;
    target.evictedInPass = 0;
    return target.blocks.length > 0;
  }

  /** Changes the state of a chunk of blocks; returns its word, or undefined if it is none. */
  *#mark(chunk: number, state: number): Operation<ChunkWord | undefined> {
    const { chunks } = this.#attachment.pool;
    for (let swaps = 0; swaps < SWAPS_MAX; swaps++) {
      const word = yield* chunks.wordOf(chunk);
      if (!holdsBlocks(word.state) || word.catalog !== this.#index.catalog) return undefined;
      if (yield* chunks.swap(chunk, packChunk(word), { ...word, state })) return word;
    }
    return undefined;
  }
}
