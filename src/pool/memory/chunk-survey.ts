import { Batch, type Operation, Scratch } from '../../verbs/index.ts';
import { control } from '../control.ts';
import { blocksPerChunk, type PoolLayout, SUPERBLOCK } from '../layout.ts';
import type { ChunkMemory } from './chunk-memory.ts';
import { CHUNK_BLOCKS, CHUNK_FREE, useOf } from './chunk-word.ts';

const WORDS_AT_ONCE = 4096;
/** Chunks of one use that are noted between two readings of the table. */
const NOTED_MAX = 64;

interface PartlyFree {
  chunk: number;
  free: number;
}

/**
 * Which chunks this client could use when it last read the chunk table. Others use them meanwhile,
 * so each is only worth a try. The superblock counts news: chunks that were recycled, or of which
 * an eighth came free. As long as that count stands still the table is hardly worth reading again.
 */
export class ChunkSurvey {
  readonly #layout: PoolLayout;
  readonly #memory: ChunkMemory;
  #newsSeen = -1n;
  readonly #recycled: number[] = [];
  /**
   * By chunk: how many blocks were said to be free when none was. A client that dies leaves such
   * counts. Nothing corrects them: a block that is being freed is counted before it is free.
   */
  readonly #futile = new Map<number, number>();
  /** By use, those with the most free blocks last. */
  readonly #partlyFree = new Map<number, PartlyFree[]>();

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

  /** Takes the chunk with the most free blocks that `suits`, if at least so many are free. */
  takePartlyFree(
    use: number,
    least: number,
    suits: (chunk: number) => boolean,
  ): number | undefined {
    const list = this.#partlyFree.get(use) ?? [];
    const at = list.findLastIndex(({ chunk }) => suits(chunk));
    return at < 0 || list[at].free < least ? undefined : list.splice(at, 1)[0].chunk;
  }

  /** This client has just freed a block there. */
  note(use: number, chunk: number): void {
    const list = this.#partlyFree.get(use) ?? [];
    this.#partlyFree.set(use, list);
    if (list.length < NOTED_MAX && list.at(-1)?.chunk !== chunk) list.push({ chunk, free: 1 });
  }

  /** Not to be tried again as long as it has the same count. */
  noteFutile(chunk: number, free: number): void {
    this.#futile.set(chunk, free);
  }

  /** Chunks without a block in use. */
  emptied(): number[] {
    return [...this.#partlyFree].flatMap(([use, list]) => {
      const blocks = blocksPerChunk(use % 65536);
      return list.filter(({ free }) => free >= blocks).map(({ chunk }) => chunk);
    });
  }

  /** Reads the table, but only if there are news, or it has to be `thorough`. */
  *refresh(thorough: boolean): Operation<void> {
    const news = yield* control.load(SUPERBLOCK.chunkNews);
    if (news === this.#newsSeen && !thorough) return;
    this.#newsSeen = news;
    this.#recycled.length = 0;
    this.#partlyFree.clear();
    yield* this.#readTable();
    for (const list of this.#partlyFree.values()) list.sort((a, b) => a.free - b.free);
  }

  *#readTable(): Operation<void> {
    const regions = yield* this.#memory.regionCount();
    const end = regions * this.#layout.chunksPerRegion;
    const words = new Scratch(8 * Math.min(end, WORDS_AT_ONCE));
    for (let first = this.#layout.reservedChunks; first < end; ) {
      const count = Math.min(WORDS_AT_ONCE, end - first, this.#layout.wordsFrom(first));
      yield new Batch().read(this.#layout.chunkWord(first), 8 * count, words, 0);
      for (let i = 0; i < count; i++) this.#add(first + i, words.i32[2 * i], words.i32[2 * i + 1]);
      first += count;
    }
  }

  /** The halves of a chunk word; `unpackChunk` would take milliseconds for those of a large pool. */
  #add(chunk: number, low: number, high: number): void {
    const state = low & 15;
    if (state === CHUNK_FREE) this.#recycled.push(chunk);
    const free = high >> 16;
    if (state !== CHUNK_BLOCKS || free <= 0 || this.#futile.get(chunk) === free) return;
    const use = useOf((low >>> 4) & 255, (low >>> 12) & 65535);
    const list = this.#partlyFree.get(use);
    if (list === undefined) this.#partlyFree.set(use, [{ chunk, free }]);
    else list.push({ chunk, free });
  }
}
