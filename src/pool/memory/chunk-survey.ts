import { Batch, type Operation, Scratch } from '../../verbs/index.ts';
import { control } from '../control.ts';
import { BLOCK_UNITS_MAX, blocksPerChunk, type PoolLayout, SUPERBLOCK } from '../layout.ts';
import type { ChunkMemory } from './chunk-memory.ts';
import { CHUNK_BLOCKS, CHUNK_FREE, type ChunkWord, holdsBlocks, useOf } from './chunk-word.ts';

const WORDS_AT_ONCE = 4096;
/** Most chunks of one use that `note` adds to a list. */
const NOTED_MAX = 64;
/**
 * Without news, a reading finds next to nothing but takes longer the larger the pool is. So after
 * each reading, this many are left out for each chunk of the pool.
 */
const LEFT_OUT = 1 / 4;
/** After this many readings of the table, chunks that were tried to no avail are tried again. */
const FUTILE_READINGS = 64;
/** Above the units of a block: the factor of the catalog number in `useOf`. */
const UNITS_MAX = 65536;

/** What the word of a chunk of blocks says. */
export type BlocksWord = Pick<ChunkWord, 'state' | 'catalog' | 'units' | 'free'>;

/** Chunks of one use with free blocks, and how many of these each has; in no order. */
class PartlyFree {
  readonly chunks: number[] = [];
  readonly free: number[] = [];

  add(chunk: number, free: number): void {
    this.chunks.push(chunk);
    this.free.push(free);
  }

  /** Whether half of the blocks of one chunk are free, and as many as a chunk has in all. */
  hasSlack(blocks: number): boolean {
    let most = 0;
    let sum = 0;
    for (const free of this.free) {
      most = Math.max(most, free);
      sum += free;
    }
    return 2 * most >= blocks && sum >= blocks;
  }

  /** Takes the chunk that `suits` with the most of them, or the fewest. */
  take(
    which: 'emptiest' | 'fullest',
    suits: (chunk: number, free: number) => boolean,
  ): number | undefined {
    const { chunks, free } = this;
    const sign = which === 'emptiest' ? 1 : -1;
    let best = -1;
    for (let i = 0; i < chunks.length; i++) {
      if (best >= 0 && sign * free[i] <= sign * free[best]) continue;
      if (suits(chunks[i], free[i])) best = i;
    }
    if (best < 0) return undefined;
    const taken = chunks[best];
    chunks[best] = chunks[chunks.length - 1];
    free[best] = free[free.length - 1];
    chunks.pop();
    free.pop();
    return taken;
  }
}

const STATE_BITS = 15;
/** Weight of chance between chunks with about the same share of free blocks. */
const TIE = 2 ** -8;

/** The use (`useOf`) in the lower half of a chunk's word. */
function usedFor(low: number): number {
  return useOf((low >>> 4) & 255, (low >>> 12) & 65535);
}

/** The count of free blocks in the upper half of a chunk's word. */
function freeOf(high: number): number {
  return high >> 16;
}

/** Whether it is the word of a chunk of blocks. The pool may be damaged. */
function isOfBlocks(low: number): boolean {
  const units = usedFor(low) % UNITS_MAX;
  return holdsBlocks(low & STATE_BITS) && units > 0 && units <= BLOCK_UNITS_MAX;
}

/** Whether no block of such a chunk is in use. */
function isEmptied(use: number, free: number): boolean {
  return free >= blocksPerChunk(use % UNITS_MAX);
}

/**
 * Chunks that this client could use when it last read the chunk table. Other clients use them
 * meanwhile, so each is only a candidate. The superblock counts news: chunks that were recycled, or
 * in which an eighth of the blocks came free, and growth of the pool. While that count stands
 * still, the client does not read the table again.
 */
export class ChunkSurvey {
  readonly #layout: PoolLayout;
  readonly #memory: ChunkMemory;
  #newsSeen = -1n;
  #readings = 0;
  /** How many readings without news are still left out. */
  #leftOut = 0;
  readonly #recycled: number[] = [];
  /**
   * By chunk: a count of free blocks that proved wrong, because none was free. Either a client died
   * and left the count too high, which nothing corrects, or a client had counted blocks that it had
   * not marked free yet. Because of the latter, these are forgotten now and then.
   */
  readonly #futile = new Map<number, number>();
  /** By chunk: a count that said that no block was in use, although one was. */
  readonly #occupied = new Map<number, number>();
  /** By use. */
  readonly #partlyFree = new Map<number, PartlyFree>();
  /** Chunks without a block in use. */
  readonly #emptied: number[] = [];

  constructor(layout: PoolLayout, memory: ChunkMemory) {
    this.#layout = layout;
    this.#memory = memory;
  }

  get recycled(): number {
    return this.#recycled.length;
  }

  /** Takes a recycled chunk that `suits`. */
  takeRecycled(suits: (chunk: number) => boolean): number | undefined {
    const at = this.#recycled.findLastIndex(suits);
    return at < 0 ? undefined : this.#recycled.splice(at, 1)[0];
  }

  /** Takes the chunk with the fewest free blocks that `suits`: the others may become empty. */
  takeFullest(use: number, suits: (chunk: number) => boolean): number | undefined {
    return this.#partlyFree.get(use)?.take('fullest', suits);
  }

  /** Takes the chunk with the most free blocks that `suits`, if at least `least` are free. */
  takePartlyFree(
    use: number,
    least: number,
    suits: (chunk: number) => boolean,
  ): number | undefined {
    const suitsWell = (chunk: number, free: number) => free >= least && suits(chunk);
    return this.#partlyFree.get(use)?.take('emptiest', suitsWell);
  }

  /**
   * Whether a use that `suits` has more memory than it needs: enough free blocks to fill a chunk,
   * and one chunk of which half is free.
   */
  hasSlack(suits: (catalog: number, units: number) => boolean): boolean {
    for (const [use, list] of this.#partlyFree) {
      const units = use % UNITS_MAX;
      if (!suits(Math.floor(use / UNITS_MAX), units)) continue;
      if (list.hasSlack(blocksPerChunk(units))) return true;
    }
    return false;
  }

  /** This client has just freed a block there. */
  note(use: number, chunk: number): void {
    const list = this.#listOf(use);
    const { length } = list.chunks;
    if (length < NOTED_MAX && list.chunks[length - 1] !== chunk) list.add(chunk, 1);
  }

  /**
   * No block was free there. The chunk is left out for a while as long as its count is the same.
   */
  noteFutile(chunk: number, free: number): void {
    this.#futile.set(chunk, free);
  }

  /** A block was in use there. The chunk is not recycled for a while, as with `noteFutile`. */
  noteOccupied(chunk: number, free: number): void {
    this.#occupied.set(chunk, free);
  }

  /**
   * Forgets which chunks had no free block, or one in use. That may have changed, and nothing
   * tells; the same goes for a few blocks that came free since the last reading. Returns whether
   * there may be a chunk to try again.
   */
  forgetVain(): boolean {
    const some = this.#futile.size + this.#occupied.size > 0 || this.#leftOut > 0;
    this.#futile.clear();
    this.#occupied.clear();
    this.#leftOut = 0;
    return some;
  }

  /** Chunks that had no block in use. */
  get emptied(): readonly number[] {
    return this.#emptied;
  }

  /** Reads the table if there are news; at times also without, if that would be `thorough`. */
  *refresh(thorough: boolean): Operation<void> {
    const news = yield* control.load(SUPERBLOCK.chunkNews);
    if (news === this.#newsSeen && !(thorough && --this.#leftOut < 0)) return;
    // Others may have raised the pool's maximum, which is news, too.
    yield* this.#memory.readRaised();
    this.#newsSeen = news;
    this.#recycled.length = 0;
    this.#partlyFree.clear();
    this.#emptied.length = 0;
    this.#leftOut = LEFT_OUT * this.#layout.chunksMax;
    if (++this.#readings % FUTILE_READINGS === 0) {
      this.#futile.clear();
      this.#occupied.clear();
    }
    yield* this.#readTable(this.#add);
  }

  /** Reads the table now. */
  *read(): Operation<void> {
    this.#leftOut = 0;
    yield* this.refresh(true);
  }

  /**
   * Visits the words of all chunks, as halves: `unpackChunk` would take milliseconds in a large
   * pool.
   */
  *#readTable(visit: (chunk: number, low: number, high: number) => void): Operation<void> {
    const regions = yield* this.#memory.regionCount();
    const end = regions * this.#layout.chunksPerRegion;
    const words = new Scratch(8 * Math.min(end, WORDS_AT_ONCE));
    for (let first = this.#layout.reservedChunks; first < end; ) {
      const count = Math.min(WORDS_AT_ONCE, end - first, this.#layout.wordsFrom(first));
      yield new Batch().read(this.#layout.chunkWord(first), 8 * count, words, 0);
      for (let i = 0; i < count; i++) visit(first + i, words.i32[2 * i], words.i32[2 * i + 1]);
      first += count;
    }
  }

  /** The chunk of blocks that `suits` with the greatest share of free ones; ties are random. */
  *emptiest(
    chance: () => number,
    suits: (chunk: number, word: BlocksWord) => boolean,
  ): Operation<number | undefined> {
    let best: number | undefined;
    let most = Number.NEGATIVE_INFINITY;
    yield* this.#readTable((chunk, low, high) => {
      const use = usedFor(low);
      const units = use % UNITS_MAX;
      const state = low & STATE_BITS;
      const free = freeOf(high);
      if (!isOfBlocks(low)) return;
      if (!suits(chunk, { state, catalog: Math.floor(use / UNITS_MAX), units, free })) return;
      const share = free / blocksPerChunk(units) + TIE * chance();
      if (share > most) [best, most] = [chunk, share];
    });
    return best;
  }

  /**
   * How many blocks there are to claim for a use, and how many of them are free. Blocks that could
   * be made of recycled chunks count, except `reserve` of these.
   */
  *count(use: number, reserve: number): Operation<{ free: number; blocks: number }> {
    let chunks = 0;
    let recycled = -reserve;
    let free = 0;
    yield* this.#readTable((chunk, low, high) => {
      const state = low & STATE_BITS;
      if (state === CHUNK_FREE) recycled++;
      if (state !== CHUNK_BLOCKS || usedFor(low) !== use) return;
      chunks++;
      if (this.#futile.get(chunk) !== freeOf(high)) free += Math.max(0, freeOf(high));
    });
    const perChunk = blocksPerChunk(use % UNITS_MAX);
    const more = Math.max(0, recycled) * perChunk;
    return { free: free + more, blocks: chunks * perChunk + more };
  }

  readonly #add = (chunk: number, low: number, high: number): void => {
    const state = low & STATE_BITS;
    if (state === CHUNK_FREE) this.#recycled.push(chunk);
    const free = freeOf(high);
    if (!isOfBlocks(low) || free <= 0 || this.#futile.get(chunk) === free) return;
    const use = usedFor(low);
    const isEmpty = isEmptied(use, free) && this.#occupied.get(chunk) !== free;
    if (isEmpty) this.#emptied.push(chunk);
    if (state !== CHUNK_BLOCKS) return;
    this.#listOf(use).add(chunk, free);
  };

  #listOf(use: number): PartlyFree {
    let list = this.#partlyFree.get(use);
    if (list === undefined) {
      list = new PartlyFree();
      this.#partlyFree.set(use, list);
    }
    return list;
  }
}
