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

/** Chunks that are begun in vain before this is given up: of tables, or of what stays. */
const VAIN_MAX = 8;
/** Blocks that one payment looks at, at most. */
const LOOKS_MAX = 64;
/** How often a chunk's word may change under a client that wants to replace it. */
const SWAPS_MAX = 16;

/** Evicts the record that has a block of so many lines; false when there is none, or it stays. */
type EvictAt = (block: Address, units: number) => Operation<boolean>;

/** A chunk whose records are being evicted. */
interface Target {
  readonly chunk: number;
  readonly sizeClass: SizeClass;
  /** The blocks of it that were in use. */
  blocks: readonly Address[];
  /** How many of these were looked at. */
  seen: number;
  /** Records that were evicted since the chunk's state bytes were read last, and in all. */
  evictedInPass: number;
  evicted: number;
}

/**
 * Empties chunks, so that a store whose records change in size finds memory for blocks of another
 * size: sampled victims are all over the pool, and leave no chunk without a record.
 *
 * The store takes a chunk of the reserve at once, and owes the pool another one. It pays with each
 * write about as many bytes as that stores: it evicts the records of the emptiest chunk of records,
 * one block after the other. A block tells its record's key, and a search for the key tells whether
 * the record is there. No client claims blocks of such a chunk any more. The client that frees the
 * last block recycles it.
 *
 * A client that dies or goes idle leaves the chunk as it is. The greatest part of it is free then,
 * so the next client that owes a chunk goes on with it.
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

  /** Whether blocks of some size lie free that no write of that size is going to need soon. */
  get hasSlack(): boolean {
    return this.#attachment.pool.chunks.survey.hasSlack(this.#isOfRecords);
  }

  /** This client is about to take a chunk of the reserve. */
  owe(): void {
    this.#owed++;
  }

  /** Evicts at least so many bytes, or one record, of what it owes. */
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

  /** Whether it is done with the chunk. */
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
   * Clients that had claimed blocks of the chunk ahead may have written records into them since. So
   * after a pass that has evicted something there is another one.
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
