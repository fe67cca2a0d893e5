import type { Index } from '../../indexes/contract.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import { control } from '../../pool/control.ts';
import { blocksPerChunk, CHUNK_BYTES } from '../../pool/layout.ts';
import { BLOCK_FREE } from '../../pool/memory/block-state.ts';
import type { BlocksWord } from '../../pool/memory/chunk-survey.ts';
import {
  CHUNK_BLOCKS,
  CHUNK_DRAINING,
  type ChunkWord,
  holdsBlocks,
  packChunk,
} from '../../pool/memory/chunk-word.ts';
import { SizeClass } from '../../pool/memory/size-class.ts';
import type { Pool } from '../../pool/pool.ts';
import {
  CONTINUATION_HEADER_BYTES,
  HEADER_BYTES,
  KEY_BYTES_AND_KIND,
  pad8,
} from '../../records/layout.ts';
import { type Address, type Operation, readInteger, UNIT_BYTES } from '../../verbs/index.ts';
import { type Attachment, inSection } from '../attachment.ts';

/** Chunks to try before giving up, if no record in them can be evicted. */
const VAIN_MAX = 8;
/** Most blocks that one payment tries. */
const LOOKS_MAX = 64;
/** Blocks that are tried together over a network, so that they share doorbells. */
const TOGETHER = 16;
/** Attempts to replace a chunk's word while other clients change it. */
const SWAPS_MAX = 16;

/** 'stays' also when no record has the block; 'full' when the index needs memory to remove it. */
export type Fate = 'evicted' | 'stays' | 'full';

type EvictAt = (block: Address, units: number) => Operation<Fate>;

/** A chunk whose records are being evicted. */
interface Target {
  readonly chunk: number;
  readonly sizeClass: SizeClass;
  /** Its blocks that were in use. */
  blocks: readonly Address[];
  /** How many of these blocks it has tried. */
  seen: number;
  /** Records evicted since the chunk's state bytes were last read. */
  evictedInPass: number;
  /** Blocks of all evicted records. Some may not be free yet. */
  readonly evicted: Set<Address>;
  /** Whether the index lacked memory to remove some. */
  isFull: boolean;
}

/**
 * Empties chunks, so that a store whose records change in size finds memory for blocks of another
 * size. Sampled victims would not do: they are scattered over the pool and empty no chunk.
 *
 * The store takes a chunk of the reserve at once, and owes the pool a chunk for it. With each write
 * it pays back about as many bytes as the write stores, by evicting the records of the emptiest
 * chunk of records, block by block. A block holds its record's key, and a search for the key tells
 * whether the record is still in the index. No client claims blocks of that chunk any more. Only a
 * write that would fail otherwise may use one again (`keepFreed`). The client that frees its last
 * block recycles it. That may be long after: SepHash frees the block of a deleted record when its
 * segment has been merged twice.
 *
 * A client that dies or goes idle leaves the chunk as it is. Most of it is free then, so the next
 * client that owes a chunk picks it again.
 */
export class ChunkDrain {
  readonly #evictAt: EvictAt;
  readonly #attachment: Attachment;
  readonly #index: Index;
  #owed = 0;
  /** Bytes that writes have yet to pay. */
  #due = 0;
  #target: Target | undefined;
  /** Chunks with records that could not be evicted. */
  readonly #stuck = new Set<number>();
  /** Chunks whose records were evicted, and how many blocks are free there once those are. */
  readonly #drained = new Map<number, number>();

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

  /** After a sweep, blocks of drained chunks that are still in use have records: try them again. */
  noteSweep(): void {
    this.#drained.clear();
  }

  /** This client is about to take a chunk of the reserve. */
  owe(): void {
    this.#owed++;
  }

  /**
   * From now on, this client keeps up to `count` freed blocks of the chunk that it drains, if it
   * has no others of that size. Each pass of the drain also tries records written to them before.
   */
  keepFreed(count: number): void {
    const { draining } = this.#attachment.pool.allocator;
    for (const chunk of draining.keys()) {
      draining.set(chunk, chunk === this.#target?.chunk ? count : 0);
    }
  }

  /** Whether the records in blocks fill a chunk: not if the index keeps most in its tables. */
  *canPay(): Operation<boolean> {
    const { pool } = this.#attachment;
    let bytes = 0;
    yield* pool.chunks.survey.emptiest(pool.clock.chance, (_, { catalog, units, free }) => {
      if (this.#isOfRecords(catalog, units)) {
        bytes += UNIT_BYTES * units * (blocksPerChunk(units) - free);
      }
      return false;
    });
    return bytes > CHUNK_BYTES;
  }

  /**
   * Evicts at least `bytes` towards what it owes. Over a network it waits until several writes have
   * something to pay.
   */
  *pay(bytes: number): Operation<void> {
    if (this.#owed === 0) return;
    this.#due += bytes;
    this.#target ??= yield* inSection(this.#attachment, () => this.#choose());
    const target = this.#target;
    const enough = (this.#together - 1) * (target?.sizeClass.units ?? 0) * UNIT_BYTES;
    if (this.#due < enough) return;
    const due = this.#due;
    this.#due = 0;
    if (target === undefined || (yield* this.#evict(target, due))) this.#owed--;
  }

  /** Blocks that are tried together. */
  get #together(): number {
    return Math.min(TOGETHER, this.#attachment.width);
  }

  /** Evicts the records of one chunk; returns how many. */
  *drainOne(): Operation<number> {
    for (let vain = 0; vain < VAIN_MAX; vain++) {
      this.#target ??= yield* inSection(this.#attachment, () => this.#choose());
      const target = this.#target;
      if (target === undefined) return 0;
      const before = target.evicted.size;
      yield* this.#evict(target, Number.POSITIVE_INFINITY);
      const evicted = target.evicted.size - before;
      if (evicted > 0 || target.isFull) return evicted;
    }
    return 0;
  }

  *#choose(): Operation<Target | undefined> {
    const { pool } = this.#attachment;
    const suits = (chunk: number, { state, catalog, units, free }: BlocksWord) => {
      if (state !== CHUNK_DRAINING) pool.allocator.draining.delete(chunk);
      const isThrough = free >= (this.#drained.get(chunk) ?? 0);
      if (state !== CHUNK_DRAINING || isThrough) this.#drained.delete(chunk);
      if (!this.#isOfRecords(catalog, units)) return false;
      const isVain = this.#stuck.has(chunk) || this.#drained.has(chunk);
      return !isVain && !pool.allocator.isClaimingIn(chunk);
    };
    const chunk = yield* pool.chunks.survey.emptiest(pool.clock.chance, suits);
    if (chunk === undefined) {
      this.#stuck.clear();
      this.#drained.clear();
      return undefined;
    }
    const word = yield* this.#mark(chunk, CHUNK_DRAINING);
    if (word === undefined) return undefined;
    pool.allocator.draining.set(chunk, 0);
    yield* pool.allocator.surrenderIn(chunk);
    const sizeClass = new SizeClass(word.catalog, word.units);
    const blocks = yield* this.#inUse(chunk, sizeClass);
    const evicted = new Set<Address>();
    return { chunk, sizeClass, blocks, seen: 0, evictedInPass: 0, evicted, isFull: false };
  }

  readonly #isOfRecords = (catalog: number, units: number): boolean => {
    const { records } = this.#index;
    return catalog === records.catalog && !records.tableUnits().includes(units);
  };

  *#inUse(chunk: number, sizeClass: SizeClass): Operation<Address[]> {
    const start = this.#attachment.pool.layout.chunkStart(chunk);
    const states = yield* control.readBytes(start, sizeClass.mapBytes);
    const blocks: Address[] = [];
    // Checked last: if the chunk was recycled meanwhile, these were no state bytes.
    if (!(yield* this.#isDraining(chunk, sizeClass))) return blocks;
    for (let i = 0; i < sizeClass.blocks; i++) {
      if (states[i] !== BLOCK_FREE) blocks.push(sizeClass.blockAt(start, i));
    }
    return blocks;
  }

  *#isDraining(chunk: number, { catalog, units }: SizeClass): Operation<boolean> {
    const word = yield* this.#attachment.pool.chunks.wordOf(chunk);
    return word.state === CHUNK_DRAINING && word.catalog === catalog && word.units === units;
  }

  /** Evicts at least `bytes` from the target; returns whether a chunk is paid for. */
  *#evict(target: Target, bytes: number): Operation<boolean> {
    const { chunk, sizeClass } = target;
    if (!(yield* inSection(this.#attachment, () => this.#isDraining(chunk, sizeClass)))) {
      this.#target = undefined;
      return target.evicted.size > 0;
    }
    target.isFull = false;
    const looksMax = bytes === Number.POSITIVE_INFINITY ? 2 * sizeClass.blocks : LOOKS_MAX;
    let evicted = 0;
    for (let looks = 0; evicted < bytes && looks < looksMax; ) {
      if (target.seen === target.blocks.length && !(yield* this.#lookAgain(target))) break;
      const before = target.evicted.size;
      looks += yield* this.#evictSome(target);
      evicted += (target.evicted.size - before) * sizeClass.units * UNIT_BYTES;
    }
    if (target.seen < target.blocks.length) return false;
    yield* this.#end(target);
    return target.evicted.size > 0;
  }

  /** Tries the next blocks of the target; returns how many. */
  *#evictSome(target: Target): Operation<number> {
    const blocks = target.blocks.slice(target.seen, target.seen + this.#together);
    target.seen += blocks.length;
    const { units } = target.sizeClass;
    const evict = function* (this: ChunkDrain, block: Address): Operation<void> {
      const fate = yield* this.#evictAt(block, units);
      if (fate === 'full') target.isFull = true;
      if (fate !== 'evicted') return;
      target.evictedInPass++;
      target.evicted.add(block);
    }.bind(this);
    yield* this.#attachment.together(blocks, evict);
    return blocks.length;
  }

  /**
   * Ends the drain of a chunk. If nothing could be evicted, the chunk would never come free, so its
   * blocks may be claimed again. If the index lacked memory to remove some records, the chunk stays
   * the target.
   */
  *#end(target: Target): Operation<void> {
    const { chunk, sizeClass, evicted } = target;
    const staying = target.blocks.filter((block) => !evicted.has(block));
    if (target.isFull) {
      target.blocks = staying;
      target.seen = 0;
      return;
    }
    this.#target = undefined;
    if (evicted.size > 0) {
      this.#drained.set(chunk, sizeClass.blocks - staying.length);
    } else {
      this.#stuck.add(chunk);
      this.#attachment.pool.allocator.draining.delete(chunk);
      yield* inSection(this.#attachment, () => this.#mark(chunk, CHUNK_BLOCKS));
    }
  }

  /**
   * Another pass, after one that evicted something: clients that had claimed blocks of the chunk
   * ahead may have written records into them since.
   */
  *#lookAgain(target: Target): Operation<boolean> {
    if (target.evictedInPass === 0) return false;
    const { chunk, sizeClass } = target;
    const blocks = yield* inSection(this.#attachment, () => this.#inUse(chunk, sizeClass));
    target.blocks = blocks.filter((block) => !target.evicted.has(block));
    target.seen = 0;
    target.evictedInPass = 0;
    return target.blocks.length > 0;
  }

  /** Changes the state of one of the store's chunks; returns its word. Undefined if it is none. */
  *#mark(chunk: number, state: number): Operation<ChunkWord | undefined> {
    const { chunks } = this.#attachment.pool;
    for (let swaps = 0; swaps < SWAPS_MAX; swaps++) {
      const word = yield* chunks.wordOf(chunk);
      if (!holdsBlocks(word.state) || word.catalog !== this.#index.records.catalog)
        return undefined;
      if (yield* chunks.swap(chunk, packChunk(word), { ...word, state })) return word;
    }
    return undefined;
  }
}

/** Enough bytes for the header and most keys. */
const READ_AT_FIRST = 128;
/** Offset in a continuation block of a chained value: the address of the first block. */
const HEAD = 16;

/**
 * Finds the record that a block belongs to. The block alone proves nothing: the record counts only
 * if a search of the index for its key leads to the block.
 */
export class BlockRecord {
  readonly #pool: Pool;
  readonly #index: Index;

  constructor(pool: Pool, index: Index) {
    this.#pool = pool;
    this.#index = index;
  }

  /** Whether the block belongs to a record. If so, the request holds that record as found. */
  *find(request: Request, block: Address, units: number): Operation<boolean> {
    if (yield* this.#isHead(request, block, units)) return true;
    if (units * UNIT_BYTES < CONTINUATION_HEADER_BYTES) return false;
    const { batch, incoming } = request;
    yield batch.clear().read(block, CONTINUATION_HEADER_BYTES, incoming, 0);
    const head = readInteger(incoming, HEAD);
    const { chunks } = this.#pool;
    if (!chunks.isBlockAddress(head)) return false;
    const word = yield* chunks.wordOf(chunks.chunkOf(head));
    const { catalog } = this.#index.records;
    if (!(yield* chunks.holdsBlock(head, word.units, catalog))) return false;
    return yield* this.#isHead(request, head, word.units);
  }

  /** Whether the block is the first one of a record that is in the index. */
  *#isHead(request: Request, block: Address, units: number): Operation<boolean> {
    const { batch, incoming } = request;
    const bytes = units * UNIT_BYTES;
    yield batch.clear().read(block, Math.min(bytes, READ_AT_FIRST), incoming, 0);
    const keyBytes = incoming.i32[KEY_BYTES_AND_KIND >> 2] & 0xffff;
    const end = HEADER_BYTES + pad8(keyBytes);
    if (end > bytes) return false;
    if (end > READ_AT_FIRST) {
      incoming.ensure(end);
      yield batch.clear().read(block, end, incoming, 0);
    }
    request.adoptKeyAt(incoming, HEADER_BYTES, keyBytes, this.#index.records.seed);
    if (!(yield* this.#index.search(request))) return false;
    return request.foundAddress === block;
  }
}
