import { invariant, StepwellError } from '../../errors.ts';
import {
  type Address,
  Batch,
  CAS_BYTES,
  type Operation,
  offsetOf,
  regionOf,
  Scratch,
  swapped,
  UNIT_BYTES,
} from '../../verbs/index.ts';
import { control } from '../control.ts';
import {
  BLOCK_UNITS_MAX,
  blocksPerChunk,
  CHUNK_BYTES,
  type PoolLayout,
  SUPERBLOCK,
  stateMapBytes,
} from '../layout.ts';
import { ChunkMemory, type Demand, fullError, type PoolMemory } from './chunk-memory.ts';
import { ChunkSurvey } from './chunk-survey.ts';
import {
  CHUNK_EMPTIED,
  CHUNK_INTENTS,
  CHUNK_PREPARING,
  CHUNK_SPAN,
  type ChunkWord,
  holdsBlocks,
  isFor,
  packChunk,
  RECYCLED,
  unpackChunk,
} from './chunk-word.ts';

const TABLE_READ_WORDS = 512;
/** Bytes of a recycled span that one WRITE clears. */
const CLEARED_BYTES = 32 * 1024;
const SWAPS_AT_ONCE = 64;

/** A chunk word to replace. */
export interface ChunkSwap {
  chunk: number;
  from: bigint;
  to: bigint;
}

/** How to free a chunk of a store that does not exist. */
export interface LeftChunk extends ChunkSwap {
  catalog: number;
}

export type ChunkOrigin = 'recycled' | 'fresh';

/** Consecutive chunks that a client loses to others before it skips ahead. */
const LOSSES_IN_LINE = 2;
/** It skips up to 2^8 chunks. */
const SKIP_BITS_MAX = 8;

/**
 * Chunks to skip after `losses` to faster clients. All clients begin at the frontier. Without this,
 * each of hundreds that want a chunk at the same time would try the CAS on each other's.
 */
function skippedAfter(losses: number, owner: number): number {
  if (losses <= LOSSES_IN_LINE) return 0;
  const bits = Math.min(2 * (losses - LOSSES_IN_LINE), SKIP_BITS_MAX);
  return Math.imul(owner + losses, 0x9e3779b1) >>> (32 - bits);
}

/** In place of the number of a memory node: any node. */
export const ANY_NODE = -1;

/**
 * The chunk table: one word a chunk. A chunk is taken by the CAS on its own word, and the frontier
 * is only a hint of where unused chunks begin: a client that dies between two steps loses no chunk.
 * If the maker of an index dies, the next one gives its chunks back: see Catalog.
 */
export class ChunkTable {
  readonly #layout: PoolLayout;
  readonly #memory: ChunkMemory;
  readonly survey: ChunkSurvey;
  /** By memory node: behind the last unused chunk that this client has found; only a hint. */
  readonly #frontiers = new Map<number, number>();
  /** Whether the system had no memory for an unused chunk when this client last asked for it. */
  #isRefused = false;

  constructor(layout: PoolLayout, memory: PoolMemory) {
    this.#layout = layout;
    this.#memory = new ChunkMemory(layout, memory);
    this.survey = new ChunkSurvey(layout, this.#memory);
  }

  /**
   * Takes one chunk, recycled or fresh. The word of a fresh one, whose bytes are all zero, becomes
   * `word` at once. That of a recycled one is `owned` until the caller has zeroed its state bytes
   * and calls `prepared`. Raises SW_POOL_FULL if the pool or the chosen node is full, or if at most
   * `spared` chunks are free for any use.
   */
  *take(
    word: ChunkWord,
    owned: ChunkWord,
    node: number = ANY_NODE,
    spared = 0,
  ): Operation<{ chunk: number; origin: ChunkOrigin }> {
    const demand: Demand = { word, owner: owned.owner, node, bytes: CHUNK_BYTES };
    yield* this.survey.refresh(false);
    if (spared > 0 && !(yield* this.hasMoreThan(spared))) throw this.#full(demand);
    const recycled = yield* this.#takeRecycled(demand, owned);
    if (recycled !== undefined) return { chunk: recycled, origin: 'recycled' };
    const chunk = yield* this.#takeFresh(demand, 1);
    if (chunk !== undefined) return { chunk, origin: 'fresh' };
    // A client may have died after it recycled chunks and before it counted them as news. And if
    // the system refuses memory for unused chunks, recycled ones may have some.
    yield* this.survey.refresh(true);
    const overlooked = yield* this.#takeRecycled(demand, owned);
    if (overlooked === undefined) throw this.#full(demand);
    return { chunk: overlooked, origin: 'recycled' };
  }

  /**
   * Whether more than `spared` chunks are free for any use. With `backed`, unused ones do not count
   * if the system refused memory for one when this client last asked.
   */
  *hasMoreThan(spared: number, backed = false): Operation<boolean> {
    const frontier = yield* this.#readFrontier();
    const unused = () => (backed && this.#isRefused ? 0 : this.#layout.chunksMax - frontier);
    const free = () => unused() + this.survey.recycled;
    if (free() > spared) return true;
    yield* this.survey.refresh(true);
    return free() > spared;
  }

  /**
   * A chunk of this use that had at least `least` free blocks when this client last read the table.
   * Reads the table again first if there is news, or with `thorough`.
   */
  *partlyFree(
    use: number,
    least: number,
    node: number,
    thorough = false,
  ): Operation<number | undefined> {
    yield* this.survey.refresh(thorough);
    return this.survey.takePartlyFree(use, least, (chunk) => this.#isOn(node, chunk));
  }

  /**
   * Takes `count` contiguous chunks of one region, all zero: fresh ones or, if there are none or
   * the system lacks memory for their first `bytes`, recycled ones. The caller reserves what it
   * uses beyond those bytes. Raises SW_POOL_FULL, even if only the requested node is full.
   */
  *takeSpan(word: ChunkWord, count: number, bytes: number, node = ANY_NODE): Operation<number> {
    const { chunksPerRegion, parameters } = this.#layout;
    if (count > chunksPerRegion) {
      const sizes = `${count * CHUNK_BYTES} bytes, a region has ${parameters.regionBytes}`;
      throw new StepwellError('SW_POOL_FULL', `no contiguous room for ${sizes}`);
    }
    const demand: Demand = { word, owner: word.owner, node, bytes };
    const fresh = yield* this.#takeFresh(demand, count);
    if (fresh !== undefined) return fresh;
    const recycled = yield* this.#takeRecycledRun(demand, count);
    if (recycled === undefined) throw this.#full(demand);
    return recycled;
  }

  /** The fullest chunk of this use that had a free block when this client last read the table. */
  fullest(use: number, node: number): number | undefined {
    return this.survey.takeFullest(use, (chunk) => this.#isOn(node, chunk));
  }

  #full({ node, refusal }: Demand): StepwellError {
    return refusal ?? this.fullOn(node);
  }

  /** The error of a pool, or of a memory node, without room for another chunk. */
  fullOn(node: number): StepwellError {
    const { stripe, bytesMax: bytes } = this.#layout;
    const remedy = this.#memory.remedy();
    return new StepwellError(
      'SW_POOL_FULL',
      node === ANY_NODE
        ? `the pool is full: all ${bytes} bytes are in use; ${remedy}`
        : `memory node ${node + 1} is full: all its ${bytes / stripe} bytes are in use; ${remedy}`,
    );
  }

  #isOn(node: number, chunk: number): boolean {
    return node === ANY_NODE || this.#layout.nodeOfChunk(chunk) === node;
  }

  /** A run of contiguous recycled chunks, cleared. */
  *#takeRecycledRun(demand: Demand, count: number): Operation<number | undefined> {
    const { word, node } = demand;
    const { chunksPerRegion, stripe } = this.#layout;
    // All of it will be written, so the system must have memory for all of it.
    const whole = { ...demand, bytes: CHUNK_BYTES };
    const free = new Set<number>();
    for (const [chunk, packed] of yield* this.words()) if (packed === RECYCLED) free.add(chunk);
    for (const first of free) {
      if (!this.#isOn(node, first)) continue;
      if (this.#layout.chunksBefore(first) + count > chunksPerRegion) continue;
      let run = 0;
      while (run < count && free.has(first + run * stripe)) {
        // The system refused memory for this chunk: later runs need not ask again.
        if (this.#memory.backs(whole, first + run * stripe)) run++;
        else free.delete(first + run * stripe);
      }
      if (run < count) continue;
      let taken = 0;
      while (taken < count) {
        if (!(yield* this.swap(first + taken * stripe, RECYCLED, word))) break;
        taken++;
      }
      if (taken === count) return yield* this.#clear(first, count);
      for (let i = 0; i < taken; i++) yield* this.release(first + i * stripe, word);
    }
    demand.refusal ??= whole.refusal;
    return undefined;
  }

  *#clear(first: number, count: number): Operation<number> {
    const zeros = new Scratch(CLEARED_BYTES);
    const start = this.#layout.chunkStart(first);
    const bytes = count * CHUNK_BYTES;
    for (let at = 0; at < bytes; at += CLEARED_BYTES) {
      yield new Batch().write(start + at, CLEARED_BYTES, zeros, 0);
    }
    return first;
  }

  /** Skips chunks for which the system has no memory: others may already have theirs. */
  *#takeRecycled(demand: Demand, owned: ChunkWord): Operation<number | undefined> {
    for (;;) {
      const chunk = this.survey.takeRecycled((one) => this.#isOn(demand.node, one));
      if (chunk === undefined) return undefined;
      if (!this.#memory.backs(demand, chunk)) continue;
      if (yield* this.swap(chunk, RECYCLED, owned)) return chunk;
    }
  }

  /** Replaces chunk words, many in a doorbell; returns the swaps that succeeded. */
  *swapMany(swaps: readonly ChunkSwap[]): Operation<ChunkSwap[]> {
    const batch = new Batch();
    const words = new Scratch(SWAPS_AT_ONCE * CAS_BYTES);
    const done: ChunkSwap[] = [];
    for (let first = 0; first < swaps.length; first += SWAPS_AT_ONCE) {
      const some = swaps.slice(first, first + SWAPS_AT_ONCE);
      batch.clear();
      some.forEach(({ chunk, from, to }, i) => {
        words.i64[(i * CAS_BYTES) >> 3] = BigInt.asIntN(64, from);
        words.i64[((i * CAS_BYTES) >> 3) + 1] = BigInt.asIntN(64, to);
        batch.cas(this.#layout.chunkWord(chunk), words, i * CAS_BYTES);
      });
      yield batch;
      done.push(...some.filter((_, i) => swapped(words, i * CAS_BYTES)));
    }
    return done;
  }

  /** Tells all clients to read the chunk table again. */
  *announceNews(): Operation<void> {
    yield* control.add(SUPERBLOCK.chunkNews, 1n);
  }

  /** Replaces one chunk word. */
  *swap(chunk: number, from: bigint, to: ChunkWord): Operation<boolean> {
    return yield* control.swap(this.#layout.chunkWord(chunk), from, packChunk(to));
  }

  /** Takes fresh chunks; undefined if there are none, or the system has no memory for them. */
  *#takeFresh(demand: Demand, count: number): Operation<number | undefined> {
    try {
      const taken = yield* this.#takeUnused(demand, count);
      this.#isRefused = false;
      return taken;
    } catch (error) {
      demand.refusal = fullError(error);
      this.#isRefused = true;
      return undefined;
    }
  }

  /**
   * Raises SW_POOL_CORRUPT for a damaged frontier: below the first chunk, tables would be used as
   * chunks.
   */
  *#readFrontier(): Operation<number> {
    const { reservedChunks } = this.#layout;
    const frontier = Number(yield* control.load(SUPERBLOCK.frontier));
    if (frontier > this.#layout.chunksMax) yield* this.#memory.readRaised();
    const { chunksMax } = this.#layout;
    const isInPool = frontier >= reservedChunks && frontier <= chunksMax;
    invariant(isInPool, `the frontier is chunk ${frontier} of ${chunksMax}`);
    return frontier;
  }

  *#takeUnused(demand: Demand, count: number): Operation<number | undefined> {
    const { node } = demand;
    const frontier = yield* this.#readFrontier();
    if (node === ANY_NODE) return yield* this.#takeUnusedFrom(frontier, frontier, demand, count);
    const hint = Math.max(frontier, this.#frontiers.get(node) ?? 0);
    const nearby = yield* this.#takeUnusedFrom(hint, frontier, demand, count);
    // A longer span may have skipped chunks in front of the hint.
    const found = nearby ?? (yield* this.#takeUnusedFrom(frontier, frontier, demand, count));
    if (found !== undefined) this.#frontiers.set(node, found + count * this.#layout.stripe);
    return found;
  }

  *#takeUnusedFrom(
    from: number,
    frontier: number,
    { word, owner, node, bytes }: Demand,
    count: number,
  ): Operation<number | undefined> {
    const { chunksPerRegion, stripe } = this.#layout;
    let first = from;
    let losses = 0;
    let skips = count === 1;
    // A span over stripes, or one node's chunk, leaves out the chunks of the other nodes.
    const leavesOut = stripe > 1 && (count > 1 || node !== ANY_NODE);
    let passedUnused = leavesOut;
    for (;;) {
      if (node !== ANY_NODE) first += (node + stripe - this.#layout.nodeOfChunk(first)) % stripe;
      if (first < this.#layout.chunksMax && this.#layout.isAddedTable(first)) {
        first++;
        continue;
      }
      const inRegion = this.#layout.chunksBefore(first);
      if (inRegion + count > chunksPerRegion) {
        // A span may not cross a region. The frontier stays before the chunks that it skips.
        first += chunksPerRegion * stripe - (first % (chunksPerRegion * stripe));
        passedUnused = true;
        continue;
      }
      const last = first + (count - 1) * stripe;
      if (last >= this.#layout.chunksMax) {
        yield* this.#memory.readRaised();
        if (last < this.#layout.chunksMax) continue;
        if (!skips || losses <= LOSSES_IN_LINE) {
          if (count === 1 && !passedUnused) yield* this.#noteUsedUp(frontier);
          return undefined;
        }
        // Chunks that it has skipped may be unused.
        skips = false;
        passedUnused = leavesOut;
        first = from;
        continue;
      }
      yield* this.#memory.extendTo(last);
      this.#memory.reserve(this.#layout.chunkStart(first), bytes);
      const taken = yield* this.#takeRun(first, word, count);
      if (taken === count) break;
      first += stripe === 1 ? taken + 1 : 1;
      const skipped = skips ? skippedAfter(++losses, owner) : 0;
      if (skipped > 0) passedUnused = true;
      first += skipped * stripe;
    }
    if (!passedUnused) {
      yield* control.swap(SUPERBLOCK.frontier, BigInt(frontier), BigInt(first + count));
    }
    return first;
  }

  /**
   * Sets the frontier to the end. Clients that take the last chunks at the same time, or die, may
   * leave it too low, and those chunks would always count as unused.
   */
  *#noteUsedUp(frontier: number): Operation<void> {
    const { chunksMax } = this.#layout;
    if (frontier === chunksMax) return;
    yield* control.swap(SUPERBLOCK.frontier, BigInt(frontier), BigInt(chunksMax));
  }

  /**
   * Takes `count` chunks of a region from `first` on, all or none. Returns `count`, or how many are
   * in front of the first one that was already taken.
   */
  *#takeRun(first: number, wanted: ChunkWord, count: number): Operation<number> {
    const word = packChunk(wanted);
    const { stripe } = this.#layout;
    for (let i = 0; i < count; i++) {
      const at = this.#layout.chunkWord(first + i * stripe);
      if (yield* control.swap(at, 0n, word)) continue;
      // Some client's frontier may be behind them by now, so they will be found only as FREE.
      for (let j = 0; j < i; j++) yield* this.release(first + j * stripe, wanted);
      return i;
    }
    return count;
  }

  /** Reserves memory of the operating system for a range of a span. Raises SW_POOL_FULL. */
  reserve(address: Address, bytes: number): void {
    this.#memory.reserve(address, bytes);
  }

  chunkOf(address: Address): number {
    return this.#layout.chunkAt(regionOf(address), offsetOf(address));
  }

  /** Every chunk word from the first usable chunk to the last one ever taken. */
  *words(): Operation<[chunk: number, word: bigint][]> {
    const words: [number, bigint][] = [];
    const regions = yield* this.#memory.regionCount();
    const end = regions * this.#layout.chunksPerRegion;
    for (let first = this.#layout.reservedChunks; first < end; ) {
      const count = Math.min(TABLE_READ_WORDS, end - first, this.#layout.wordsFrom(first));
      const view = yield* control.readView(this.#layout.chunkWord(first), 8 * count);
      for (let i = 0; i < count; i++) {
        const word = view.getBigUint64(8 * i, true);
        if (word !== 0n) words.push([first + i, word]);
      }
      first += count;
    }
    return words;
  }

  /**
   * Call when the state bytes of a recycled chunk are zero: any client may then claim its blocks.
   */
  *prepared(chunk: number, owned: ChunkWord, word: ChunkWord): Operation<void> {
    const isOwn = yield* this.swap(chunk, packChunk(owned), word);
    invariant(isOwn, 'another client has taken a chunk that this one prepares');
  }

  /** Makes a chunk that this client owns free for any use. */
  *release(chunk: number, owned: ChunkWord): Operation<void> {
    const isReleased = yield* control.swap(
      this.#layout.chunkWord(chunk),
      packChunk(owned),
      RECYCLED,
    );
    if (isReleased) yield* this.announceNews();
  }

  /**
   * Spans and chunks of blocks of stores that do not exist: only their creators knew of them. A
   * store exists, too, while a client's row names it.
   */
  *left(exists: (catalog: number) => boolean): Operation<LeftChunk[]> {
    const left: LeftChunk[] = [];
    for (const [chunk, from] of yield* this.words()) {
      const { state, catalog } = unpackChunk(from);
      if (state !== CHUNK_SPAN && !holdsBlocks(state)) continue;
      if (!exists(catalog)) left.push({ chunk, from, to: RECYCLED, catalog });
    }
    return left;
  }

  /** Makes chunks that no client knows any more free for any use; returns how many. */
  *giveBack(left: readonly LeftChunk[]): Operation<number> {
    const { length } = yield* this.swapMany(left);
    if (length > 0) yield* this.announceNews();
    return length;
  }

  *wordOf(chunk: number): Operation<ChunkWord> {
    return unpackChunk(yield* control.load(this.#layout.chunkWord(chunk)));
  }

  /**
   * Whether a block can begin there, by the maximum that this client knows (`learnMaximum` updates
   * it). The address may be any number.
   */
  isBlockAddress(address: Address): boolean {
    const { chunksMax, reservedChunks, regionsMax } = this.#layout;
    if (!(address >= 0) || address % UNIT_BYTES !== 0) return false;
    if (regionOf(address) >= regionsMax) return false;
    const chunk = this.chunkOf(address);
    if (this.#layout.isAddedTable(chunk)) return false;
    return chunk >= reservedChunks && chunk < chunksMax;
  }

  /** Reads the pool's maximum, which another client may have raised. Raises SW_POOL_CORRUPT. */
  learnMaximum(): Operation<void> {
    return this.#memory.readRaised();
  }

  /** Raises the pool's maximum to `regions`; returns the maximum by now. */
  *raiseMaximum(regions: number): Operation<number> {
    const raised = yield* this.#memory.raise(regions);
    yield* this.announceNews();
    return raised;
  }

  /** Whether `chunk`, which may be any number, is a chunk of the pool and not a table. */
  isChunk(chunk: number): Operation<boolean> {
    return this.#memory.hasWord(chunk);
  }

  /** Whether the address, which may be any number, is that of a block of this size and store. */
  *holdsBlock(address: Address, units: number, catalog: number): Operation<boolean> {
    return units <= BLOCK_UNITS_MAX && (yield* this.holdsMemory(address, units, catalog));
  }

  /** As `holdsBlock`, also for spans. */
  *holdsMemory(address: Address, units: number, catalog: number): Operation<boolean> {
    if (!Number.isInteger(address) || address < 0 || units < 1) return false;
    const chunk = this.chunkOf(address);
    if (!(yield* this.isChunk(chunk))) return false;
    const word = yield* this.wordOf(chunk);
    const start = this.#layout.chunkStart(chunk);
    if (units > BLOCK_UNITS_MAX) {
      return address === start && word.state === CHUNK_SPAN && word.catalog === catalog;
    }
    const blocks = blocksPerChunk(units);
    const index = (address - start - stateMapBytes(blocks)) / (units * UNIT_BYTES);
    return isFor(catalog, units, word) && Number.isInteger(index) && index >= 0 && index < blocks;
  }

  /** Changes a chunk's word if it is still `from`. */
  *handOver(chunk: number, from: ChunkWord, to: ChunkWord): Operation<boolean> {
    return yield* this.swap(chunk, packChunk(from), to);
  }

  /**
   * Undoes or finishes the changes of chunks that a client owned when it left or died. Returns the
   * chunks that it was about to recycle: see emptied-chunks.ts.
   */
  *settleOwned(owner: number, incarnation: number): Operation<number[]> {
    const emptied: number[] = [];
    for (const [chunk, packed] of yield* this.words()) {
      const word = unpackChunk(packed);
      if (word.state === CHUNK_EMPTIED && word.owner === owner) emptied.push(chunk);
      if (word.owner !== owner || word.incarnation !== incarnation) continue;
      if (word.state === CHUNK_PREPARING) yield* this.release(chunk, word);
      if (word.state === CHUNK_INTENTS) yield* this.#settleIntents(chunk, word);
    }
    return emptied;
  }

  /**
   * The client that took the chunk died or left while it owned it. Frees it unless its group names
   * it.
   */
  *#settleIntents(chunk: number, word: ChunkWord): Operation<void> {
    const node = this.#layout.nodeOfChunk(chunk);
    const isGroup = word.units < this.#layout.intentGroups;
    invariant(isGroup, `chunk ${chunk} has the intent slots of group ${word.units}`);
    const named = yield* control.load(this.#layout.intentChunkWord(word.units, node));
    if (named !== BigInt(chunk)) yield* this.release(chunk, word);
    else yield* this.handOver(chunk, word, { ...word, owner: 0, incarnation: 0 });
  }
}
