import { StepwellError } from '../errors.ts';
import {
  type Address,
  Batch,
  CAS_BYTES,
  type Operation,
  offsetOf,
  regionOf,
  Scratch,
  swapped,
} from '../verbs/index.ts';
import { control, packFields, unpackFields } from './control.ts';
import { type PoolLayout, SUPERBLOCK } from './layout.ts';

/** Recycled: its bytes are stale. */
export const CHUNK_FREE = 1;
/** Carved into blocks of one size by its owner; owner 0 is an orphan that anyone may adopt. */
export const CHUNK_BLOCKS = 2;
/** Part of a contiguous run that belongs to an index. */
export const CHUNK_SPAN = 3;

/** Recycled and taken; its state bytes are not zero yet, so nobody may adopt it as it is. */
export const CHUNK_PREPARING = 4;

export interface ChunkWord {
  state: number;
  /** Row of the catalog whose store the chunk serves. */
  catalog: number;
  /** Lines of a block; for a span, of which kind it is. */
  units: number;
  owner: number;
  incarnation: number;
}

const FIELDS = [4, 8, 16, 12, 24] as const;
const TABLE_READ_WORDS = 512;
const SWAPS_AT_ONCE = 64;

export function packChunk(word: ChunkWord): bigint {
  const { state, catalog, units, owner, incarnation } = word;
  const fields = [state, catalog, units, owner, incarnation];
  return packFields(fields.map((value, i) => [value, FIELDS[i]] as const));
}

export function unpackChunk(word: bigint): ChunkWord {
  const [state, catalog, units, owner, incarnation] = unpackFields(word, FIELDS);
  return { state, catalog, units, owner, incarnation };
}

const RECYCLED = packChunk({
  state: CHUNK_FREE,
  catalog: 0,
  units: 0,
  owner: 0,
  incarnation: 0,
});

/** What the blocks of a chunk are for: chunks of one use can stand in for each other. */
function useOf({ catalog, units }: ChunkWord): number {
  return catalog * 65536 + units;
}

/** A chunk word to be replaced by another. */
interface ChunkSwap {
  chunk: number;
  from: bigint;
  to: bigint;
}

export type ChunkOrigin = 'orphan' | 'recycled' | 'fresh';

/** What the chunk table needs of the machine below the verbs. */
export interface PoolMemory {
  extend(regions: number): void;
  reserve(region: number, offset: number, bytes: number): void;
}

/**
 * The chunk table: one word a chunk. A chunk is taken by the CAS on its own word, and the frontier
 * is only a hint of where unused chunks begin: a client that dies between two steps loses no chunk.
 * Only a span that was taken for an index whose creator died stays taken.
 */
export class ChunkTable {
  readonly #layout: PoolLayout;
  readonly #memory: PoolMemory;
  /** The count of reusable chunks at the last look, and what was seen then and not taken since. */
  #reusableSeen = 0n;
  readonly #recycled: number[] = [];
  readonly #orphans = new Map<number, number[]>();

  constructor(layout: PoolLayout, memory: PoolMemory) {
    this.#layout = layout;
    this.#memory = memory;
  }

  /**
   * Takes one chunk: an orphan of the same store and block size, else a recycled one, else a fresh
   * one. `fresh` chunks are all zero; an orphan keeps its blocks.
   */
  *take(wanted: ChunkWord): Operation<{ chunk: number; origin: ChunkOrigin }> {
    const reusable = yield* this.#takeReusable(wanted, false);
    if (reusable !== undefined) return reusable;
    const chunk = yield* this.#takeFresh(wanted, 1);
    if (chunk !== undefined) {
      yield* this.#reserveChunk(chunk, wanted);
      return { chunk, origin: 'fresh' };
    }
    // The count of reusable chunks is a hint that a crash can leave too low: look once more.
    const overlooked = yield* this.#takeReusable(wanted, true);
    if (overlooked === undefined) throw this.#full();
    return overlooked;
  }

  /** Takes `count` contiguous fresh chunks of one region; the caller reserves what it touches. */
  *takeSpan(wanted: ChunkWord, count: number): Operation<number> {
    const { chunksPerRegion, parameters } = this.#layout;
    if (count > chunksPerRegion) {
      const { chunkBytes, regionBytes } = parameters;
      const sizes = `${count * chunkBytes} bytes, a region has ${regionBytes}`;
      throw new StepwellError('SW_POOL_FULL', `no room in one piece for ${sizes}`);
    }
    const chunk = yield* this.#takeFresh(wanted, count);
    if (chunk === undefined) throw this.#full();
    return chunk;
  }

  #full(): StepwellError {
    const { regionBytes, regionsMax } = this.#layout.parameters;
    return new StepwellError(
      'SW_POOL_FULL',
      `the pool is full: all ${regionBytes * regionsMax} bytes are in use`,
    );
  }

  *#takeReusable(
    wanted: ChunkWord,
    thorough: boolean,
  ): Operation<{ chunk: number; origin: ChunkOrigin } | undefined> {
    yield* this.#look(thorough);
    const orphans = this.#orphans.get(useOf(wanted)) ?? [];
    for (let chunk = orphans.pop(); chunk !== undefined; chunk = orphans.pop()) {
      const orphan = packChunk({ ...wanted, owner: 0, incarnation: 0 });
      if (yield* this.#claim(chunk, orphan, wanted)) return { chunk, origin: 'orphan' };
    }
    const preparing = { ...wanted, state: CHUNK_PREPARING };
    for (let chunk = this.#recycled.pop(); chunk !== undefined; chunk = this.#recycled.pop()) {
      if (!(yield* this.#claim(chunk, RECYCLED, preparing))) continue;
      yield* this.#reserveChunk(chunk, preparing);
      return { chunk, origin: 'recycled' };
    }
    return undefined;
  }

  /**
   * Reads the table for chunks to take, but only when their number has changed since: what was seen
   * then is taken one by one, and a chunk that somebody else took meanwhile fails its CAS.
   */
  *#look(thorough: boolean): Operation<void> {
    const count = yield* control.load(SUPERBLOCK.freeChunks);
    if (count === this.#reusableSeen && !thorough) return;
    this.#reusableSeen = count;
    this.#recycled.length = 0;
    this.#orphans.clear();
    for (const [chunk, word] of yield* this.words()) {
      const fields = unpackChunk(word);
      if (fields.state === CHUNK_FREE) this.#recycled.push(chunk);
      if (fields.state !== CHUNK_BLOCKS || fields.owner !== 0) continue;
      const use = useOf(fields);
      const orphans = this.#orphans.get(use);
      if (orphans === undefined) this.#orphans.set(use, [chunk]);
      else orphans.push(chunk);
    }
  }

  /** Takes every chunk of a store that its owner left or died with. */
  *adoptOrphans(
    catalog: number,
    owner: number,
    incarnation: number,
  ): Operation<{ chunk: number; units: number }[]> {
    const swaps: ChunkSwap[] = [];
    for (const [chunk, from] of yield* this.words()) {
      const fields = unpackChunk(from);
      if (fields.state !== CHUNK_BLOCKS || fields.owner !== 0 || fields.catalog !== catalog)
        continue;
      swaps.push({ chunk, from, to: packChunk({ ...fields, owner, incarnation }) });
    }
    const adopted = yield* this.#swapMany(swaps, -1n);
    return adopted.map(({ chunk, from }) => ({ chunk, units: unpackChunk(from).units }));
  }

  /** Leaves chunks that this client owns, blocks and all, to whoever wants blocks of their size. */
  *disown(chunks: readonly { chunk: number; word: ChunkWord }[]): Operation<void> {
    const orphaned = (word: ChunkWord) => packChunk({ ...word, owner: 0, incarnation: 0 });
    const swaps = chunks.map(({ chunk, word }) => {
      return { chunk, from: packChunk(word), to: orphaned(word) };
    });
    yield* this.#swapMany(swaps, 1n);
  }

  /**
   * Replaces chunk words, many in a doorbell, and adds so many times `each` to the count of
   * reusable chunks. Returns those whose word was what it should be.
   */
  *#swapMany(swaps: readonly ChunkSwap[], each: bigint): Operation<ChunkSwap[]> {
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
      const won = some.filter((_, i) => swapped(words, i * CAS_BYTES));
      if (won.length > 0) yield* this.#countReusable(each * BigInt(won.length));
      done.push(...won);
    }
    return done;
  }

  *#countReusable(added: bigint): Operation<void> {
    const before = yield* control.add(SUPERBLOCK.freeChunks, added);
    // One's own taking is no news.
    if (added < 0n && before === this.#reusableSeen) {
      this.#reusableSeen = BigInt.asUintN(64, before + added);
    }
  }

  *#claim(chunk: number, from: bigint, to: ChunkWord): Operation<boolean> {
    const won = yield* control.swap(this.#layout.chunkWord(chunk), from, packChunk(to));
    if (!won) return false;
    yield* this.#countReusable(-1n);
    return true;
  }

  *#takeFresh(wanted: ChunkWord, count: number): Operation<number | undefined> {
    const frontier = Number(yield* control.load(SUPERBLOCK.frontier));
    const { chunksPerRegion, chunksMax, stripe } = this.#layout;
    let first = frontier;
    // A span over stripes leaves out the chunks of the other nodes.
    let passedUnused = stripe > 1 && count > 1;
    for (;;) {
      const inRegion = this.#layout.chunksBefore(first);
      if (inRegion + count > chunksPerRegion) {
        // A span may not cross a region. The frontier stays before the chunks that it skips.
        first += chunksPerRegion * stripe - (first % (chunksPerRegion * stripe));
        passedUnused = true;
      }
      const last = first + (count - 1) * stripe;
      if (last >= chunksMax) return undefined;
      yield* this.#extendTo(last);
      const taken = yield* this.#takeRun(first, wanted, count);
      if (taken === count) break;
      first += stripe === 1 ? taken + 1 : 1;
    }
    if (!passedUnused) {
      yield* control.swap(SUPERBLOCK.frontier, BigInt(frontier), BigInt(first + count));
    }
    return first;
  }

  /**
   * Takes `count` chunks of a region from `first` on or, when one of them is taken, none; returns
   * how many it got.
   */
  *#takeRun(first: number, wanted: ChunkWord, count: number): Operation<number> {
    const word = packChunk(wanted);
    const { stripe } = this.#layout;
    for (let i = 0; i < count; i++) {
      const at = this.#layout.chunkWord(first + i * stripe);
      if (yield* control.swap(at, 0n, word)) continue;
      // Somebody's frontier may have passed them by now: only as FREE will they be found again.
      for (let j = 0; j < i; j++) yield* this.release(first + j * stripe, wanted);
      return i;
    }
    return count;
  }

  *#reserveChunk(chunk: number, owned: ChunkWord): Operation<void> {
    try {
      this.reserve(this.#layout.chunkStart(chunk), this.#layout.parameters.chunkBytes);
    } catch (error) {
      yield* this.release(chunk, owned);
      throw error;
    }
  }

  *#extendTo(chunk: number): Operation<void> {
    const needed = this.#layout.regionsFor(chunk);
    for (;;) {
      const regions = yield* control.load(SUPERBLOCK.regionCount);
      if (regions >= needed) return;
      this.#memory.extend(Number(regions) + 1);
      yield* control.swap(SUPERBLOCK.regionCount, regions, regions + 1n);
    }
  }

  /** Takes the range from the operating system now; see RegionSource.reserve. */
  reserve(address: Address, bytes: number): void {
    const page = 4096;
    const offset = offsetOf(address);
    const start = Math.floor(offset / page) * page;
    const end = Math.ceil((offset + bytes) / page) * page;
    this.#memory.reserve(regionOf(address), start, end - start);
  }

  chunkOf(address: Address): number {
    return this.#layout.chunkAt(regionOf(address), offsetOf(address));
  }

  /** Every chunk word from the first usable chunk to the last one ever taken. */
  *words(): Operation<[chunk: number, word: bigint][]> {
    const words: [number, bigint][] = [];
    const regions = Number(yield* control.load(SUPERBLOCK.regionCount));
    const end = regions * this.#layout.chunksPerRegion;
    for (let first = this.#layout.reservedChunks; first < end; first += TABLE_READ_WORDS) {
      const count = Math.min(TABLE_READ_WORDS, end - first);
      const bytes = yield* control.readBytes(this.#layout.chunkWord(first), 8 * count);
      const view = new DataView(bytes.buffer);
      for (let i = 0; i < count; i++) {
        const word = view.getBigUint64(8 * i, true);
        if (word !== 0n) words.push([first + i, word]);
      }
    }
    return words;
  }

  /** A recycled chunk has zero state bytes now. */
  *prepared(chunk: number, owned: ChunkWord): Operation<void> {
    const preparing = packChunk({ ...owned, state: CHUNK_PREPARING });
    yield* control.swap(this.#layout.chunkWord(chunk), preparing, packChunk(owned));
  }

  /** Gives back a chunk whose blocks are all free, for any use. */
  *release(chunk: number, owned: ChunkWord): Operation<void> {
    if (yield* control.swap(this.#layout.chunkWord(chunk), packChunk(owned), RECYCLED)) {
      yield* control.add(SUPERBLOCK.freeChunks, 1n);
    }
  }

  /** Leaves all chunks of a client without an owner, blocks and all: it closed, or it died. */
  *orphan(owner: number, incarnation: number): Operation<void> {
    const left: { chunk: number; word: ChunkWord }[] = [];
    for (const [chunk, packed] of yield* this.words()) {
      const word = unpackChunk(packed);
      if (word.owner !== owner || word.incarnation !== incarnation) continue;
      if (word.state === CHUNK_PREPARING) yield* this.release(chunk, word);
      if (word.state === CHUNK_BLOCKS) left.push({ chunk, word });
    }
    yield* this.disown(left);
  }
}
