import { Batch, type Operation, Scratch } from '../../verbs/index.ts';
import { control } from '../control.ts';
import { BLOCK_UNITS_MAX, blocksPerChunk, type PoolLayout, SUPERBLOCK } from '../layout.ts';
import type { ChunkMemory } from './chunk-memory.ts';
import { CHUNK_BLOCKS, CHUNK_FREE, type ChunkWord, holdsBlocks, useOf } from './chunk-word.ts';

const WORDS_AT_ONCE = 4096;
/** Most chunks of one use that `note` adds to a list. */
const NOTED_MAX = 64;
/**
 * If the count of changes is the same, rereading the table finds almost nothing, and takes longer
 * in a larger pool. So after a reading, skip this many for each chunk of the pool.
 */
const LEFT_OUT = 1 / 4;
/** After this many readings of the table, chunks that were of no use are tried again. */
const FUTILE_READINGS = 64;
/** The factor of the catalog number in `useOf`. Larger than the units of any block. */
const UNITS_MAX = 65536;

/** The fields of a chunk word that describe a chunk of blocks. */
export type BlocksWord = Pick<ChunkWord, 'state' | 'catalog' | 'units' | 'free'>;

/**
 * Chunks of one use with free blocks, and how many each has, unordered. The arrays are reused by
 * the next reading: in a large pool they have thousands of chunks.
 */
class PartlyFree {
  readonly use: number;
  /** Blocks of a chunk. */
  readonly blocks: number;
  readonly #chunks: number[] = [];
  readonly #free: number[] = [];
  #count = 0;
  #slack: boolean | undefined;

  constructor(use: number) {
    this.use = use;
    this.blocks = blocksPerChunk(use % UNITS_MAX);
  }

  clear(): void {
    this.#count = 0;
    this.#slack = undefined;
  }

  add(chunk: number, free: number): void {
    this.#chunks[this.#count] = chunk;
    this.#free[this.#count++] = free;
    this.#slack = undefined;
  }

  /** Adds a chunk in which a block came free, unless the list is long enough. */
  note(chunk: number): void {
    if (this.#count < NOTED_MAX && this.#chunks[this.#count - 1] !== chunk) this.add(chunk, 1);
  }

  /**
   * Whether some chunk is at least half free, and there are enough free blocks in all to fill a
   * chunk. Cached, because each write to a full store may ask.
   */
  get hasSlack(): boolean {
    this.#slack ??= this.#findSlack();
    return this.#slack;
  }

  #findSlack(): boolean {
    let most = 0;
    let sum = 0;
    for (let i = 0; i < this.#count; i++) {
      most = Math.max(most, this.#free[i]);
      sum += this.#free[i];
    }
    return 2 * most >= this.blocks && sum >= this.blocks;
  }

  /** Removes and returns the chunk that `suits` with the most free blocks, or the fewest. */
  take(
    which: 'emptiest' | 'fullest',
    suits: (chunk: number, free: number) => boolean,
  ): number | undefined {
    const chunks = this.#chunks;
    const free = this.#free;
    const sign = which === 'emptiest' ? 1 : -1;
    let best = -1;
    for (let i = 0; i < this.#count; i++) {
      if (best >= 0 && sign * free[i] <= sign * free[best]) continue;
      if (suits(chunks[i], free[i])) best = i;
    }
    if (best < 0) return undefined;
    const taken = chunks[best];
    const last = --this.#count;
    chunks[best] = chunks[last];
    free[best] = free[last];
    this.#slack = undefined;
    return taken;
  }
}

const STATE_BITS = 15;
/** Weight of the random choice between chunks with about the same share of free blocks. */
const TIE = 2 ** -8;

/** The block size in units, from the low half of a chunk's word. */
function unitsIn(low: number): number {
  return (low >>> 12) & 65535;
}

/** The use (`useOf`), from the low half of a chunk's word. */
function usedFor(low: number): number {
  return useOf((low >>> 4) & 255, unitsIn(low));
}

/** The count of free blocks, from the high half of a chunk's word. */
function freeOf(high: number): number {
  return high >> 16;
}

/** Whether this is the word of a chunk of blocks, with a valid block size: it may be damaged. */
function isOfBlocks(low: number): boolean {
  const units = unitsIn(low);
  return holdsBlocks(low & STATE_BITS) && units > 0 && units <= BLOCK_UNITS_MAX;
}

/**
 * Chunks that this client could use when it last read the chunk table. Other clients use them
 * meanwhile, so each is only a candidate. The superblock counts news: chunks that were recycled or
 * became an eighth free, and growth of the pool. While that count is unchanged, the client rarely
 * reads the table again (LEFT_OUT).
 */
export class ChunkSurvey {
  readonly #layout: PoolLayout;
  readonly #memory: ChunkMemory;
  #newsSeen = -1n;
  #readings = 0;
  /** How many more readings without news to skip. */
  #leftOut = 0;
  readonly #recycled: number[] = [];
  /**
   * By chunk: a count of free blocks that proved wrong, because none was free. Either a client died
   * and left the count too high, which nothing corrects, or a client had counted blocks before it
   * marked them free. Because the latter passes, these entries are cleared now and then.
   */
  readonly #futile = new Map<number, number>();
  /** By chunk: a count of free blocks that meant an empty chunk, although a block was in use. */
  readonly #occupied = new Map<number, number>();
  /** For each use, its chunks with free blocks. */
  readonly #partlyFree = new Map<number, PartlyFree>();
  /** Chunks without a block in use. */
  readonly #emptied: number[] = [];
  /** Memory for readings of the table: operations in flight may read it at the same time. */
  readonly #idle: Scratch[] = [];

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

  /** Takes the chunk that `suits` with the fewest free blocks, so that others may become empty. */
  takeFullest(use: number, suits: (chunk: number) => boolean): number | undefined {
    return this.#partlyFree.get(use)?.take('fullest', suits);
  }

  /** Takes the chunk that `suits` with the most free blocks, if at least `least` are free. */
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
   * and some chunk that is at least half free.
   */
  hasSlack(suits: (catalog: number, units: number) => boolean): boolean {
    for (const [use, list] of this.#partlyFree) {
      const units = use % UNITS_MAX;
      if (!suits(Math.floor(use / UNITS_MAX), units)) continue;
      if (list.hasSlack) return true;
    }
    return false;
  }

  /** Notes that this client has just freed a block in the chunk. */
  note(use: number, chunk: number): void {
    this.#listOf(use).note(chunk);
  }

  /** Notes that no block was free. The chunk is skipped for a while if its count is the same. */
  noteFutile(chunk: number, free: number): void {
    this.#futile.set(chunk, free);
  }

  /** Notes that a block was in use. The chunk is not recycled for a while, as in `noteFutile`. */
  noteOccupied(chunk: number, free: number): void {
    this.#occupied.set(chunk, free);
  }

  /**
   * Forgets which chunks had no free block, or had one in use, and makes the next thorough
   * `refresh` read the table: a few blocks may have been freed without news. Returns whether there
   * may be a chunk to try again.
   */
  forgetFutile(): boolean {
    const some = this.#futile.size + this.#occupied.size > 0 || this.#leftOut > 0;
    this.#futile.clear();
    this.#occupied.clear();
    this.#leftOut = 0;
    return some;
  }

  /** Chunks that had no block in use at the last reading. */
  get emptied(): readonly number[] {
    return this.#emptied;
  }

  /** Reads the table if there is news; if `thorough`, now and then also without. */
  *refresh(thorough: boolean): Operation<void> {
    const news = yield* control.load(SUPERBLOCK.chunkNews);
    if (news === this.#newsSeen && !(thorough && --this.#leftOut < 0)) return;
    // Another client may have raised the pool's maximum, which also counts as news.
    yield* this.#memory.readRaised();
    this.#newsSeen = news;
    this.#leftOut = LEFT_OUT * this.#layout.chunksMax;
    if (++this.#readings % FUTILE_READINGS === 0) {
      this.#futile.clear();
      this.#occupied.clear();
    }
    yield* this.#readTable(this.#list);
  }

  /** Reads the table now. */
  *read(): Operation<void> {
    this.#leftOut = 0;
    yield* this.refresh(true);
  }

  /**
   * Passes the words of all chunks, as halves, to `use`, with the number of the first chunk. Calls
   * `use` once: a call or an object per chunk would take milliseconds in a large pool.
   */
  *#readTable(use: (words: Int32Array, count: number, first: number) => void): Operation<void> {
    const regions = yield* this.#memory.regionCount();
    const { reservedChunks } = this.#layout;
    const end = regions * this.#layout.chunksPerRegion;
    const words = this.#idle.pop() ?? new Scratch(0);
    try {
      words.ensure(8 * (end - reservedChunks));
      for (let first = reservedChunks; first < end; ) {
        const count = Math.min(WORDS_AT_ONCE, end - first, this.#layout.wordsFrom(first));
        const at = 8 * (first - reservedChunks);
        yield new Batch().read(this.#layout.chunkWord(first), 8 * count, words, at);
        first += count;
      }
      use(words.i32, end - reservedChunks, reservedChunks);
    } finally {
      this.#idle.push(words);
    }
  }

  /** The chunk that `suits` with the greatest share of free blocks; breaks ties at random. */
  *emptiest(
    chance: () => number,
    suits: (chunk: number, word: BlocksWord) => boolean,
  ): Operation<number | undefined> {
    let best: number | undefined;
    let most = Number.NEGATIVE_INFINITY;
    yield* this.#readTable((words, count, first) => {
      let perChunk = 1;
      for (let i = 0, last = -1; i < count; i++) {
        const low = words[2 * i];
        if (!isOfBlocks(low)) continue;
        const use = usedFor(low);
        if (use !== last) perChunk = blocksPerChunk(use % UNITS_MAX);
        last = use;
        const free = freeOf(words[2 * i + 1]);
        // Most chunks cannot win, and asking about each would take milliseconds.
        if (free / perChunk + TIE <= most) continue;
        const share = free / perChunk + TIE * chance();
        if (share <= most) continue;
        const [catalog, units] = [Math.floor(use / UNITS_MAX), use % UNITS_MAX];
        if (!suits(first + i, { state: low & STATE_BITS, catalog, units, free })) continue;
        [best, most] = [first + i, share];
      }
    });
    return best;
  }

  /**
   * How many blocks a use can have, and how many of them are free. Includes blocks that recycled
   * chunks could be cut into, except `reserve` chunks.
   */
  *count(use: number, reserve: number): Operation<{ free: number; blocks: number }> {
    let chunks = 0;
    let recycled = -reserve;
    let free = 0;
    yield* this.#readTable((words, count, first) => {
      for (let i = 0; i < count; i++) {
        const low = words[2 * i];
        const state = low & STATE_BITS;
        if (state === CHUNK_FREE) recycled++;
        if (state !== CHUNK_BLOCKS || usedFor(low) !== use) continue;
        chunks++;
        const some = freeOf(words[2 * i + 1]);
        if (some > 0 && !this.#isFutile(first + i, some)) free += some;
      }
    });
    const perChunk = blocksPerChunk(use % UNITS_MAX);
    const more = Math.max(0, recycled) * perChunk;
    return { free: free + more, blocks: chunks * perChunk + more };
  }

  readonly #list = (words: Int32Array, count: number, first: number): void => {
    this.#recycled.length = 0;
    this.#emptied.length = 0;
    for (const list of this.#partlyFree.values()) list.clear();
    let list: PartlyFree | undefined;
    for (let i = 0; i < count; i++) {
      const low = words[2 * i];
      const state = low & STATE_BITS;
      if (state === CHUNK_FREE) this.#recycled.push(first + i);
      const free = freeOf(words[2 * i + 1]);
      if (free <= 0 || !isOfBlocks(low) || this.#isFutile(first + i, free)) continue;
      const use = usedFor(low);
      if (list?.use !== use) list = this.#listOf(use);
      if (free >= list.blocks && this.#occupied.get(first + i) !== free)
        this.#emptied.push(first + i);
      if (state === CHUNK_BLOCKS) list.add(first + i, free);
    }
  };

  #isFutile(chunk: number, free: number): boolean {
    return this.#futile.size > 0 && this.#futile.get(chunk) === free;
  }

  #listOf(use: number): PartlyFree {
    let list = this.#partlyFree.get(use);
    if (list === undefined) {
      list = new PartlyFree(use);
      this.#partlyFree.set(use, list);
    }
    return list;
  }
}
