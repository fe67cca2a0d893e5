import { invariant } from '../../errors.ts';
import { type Address, Batch, FAA_BYTES, type Operation, Scratch } from '../../verbs/index.ts';
import { blocksPerChunk, type PoolLayout } from '../layout.ts';
import { BLOCK_FREE } from './block-state.ts';
import { freeBlocks, isCarved, unpackChunk, useOf } from './chunk-word.ts';
import type { ChunkTable } from './chunks.ts';
import { worthwhileOf } from './size-class.ts';

/** Most blocks that are marked free in one doorbell. */
const FREED_AT_ONCE = 512;

interface FreedBlock {
  readonly address: Address;
  readonly units: number;
  readonly catalog: number;
}

/**
 * Blocks to be marked free. `flush` first counts them in the words of their chunks and then WRITEs
 * their state bytes. Because of that order, when no block of a chunk is in use, no more counts will
 * arrive, and the chunk can be recycled. A client that dies in between leaves the count too high,
 * and a sweep finds the blocks.
 */
export class FreedBlocks {
  readonly #layout: PoolLayout;
  readonly #chunks: ChunkTable;
  /** Source of the WRITEs of state bytes. */
  readonly #freeByte = new Scratch(8);
  #blocks: FreedBlock[] = [];
  /** Spare markings. */
  readonly #idle: Marking[] = [];

  constructor(layout: PoolLayout, chunks: ChunkTable) {
    this.#layout = layout;
    this.#chunks = chunks;
    this.#freeByte.u8[0] = BLOCK_FREE;
  }

  get length(): number {
    return this.#blocks.length;
  }

  add(address: Address, units: number, catalog: number): void {
    this.#blocks.push({ address, units, catalog });
  }

  /** Returns the chunks that have no block in use any more. */
  *flush(): Operation<number[]> {
    const blocks = this.#blocks;
    // Interleaved operations may free others meanwhile.
    this.#blocks = [];
    const emptied: number[] = [];
    let isNews = false;
    const marking = this.#idle.pop() ?? new Marking();
    try {
      for (let first = 0; first < blocks.length; first += FREED_AT_ONCE) {
        const end = Math.min(first + FREED_AT_ONCE, blocks.length);
        if (yield* this.#mark(marking.begin(), blocks, first, end, emptied)) isNews = true;
      }
    } finally {
      this.#idle.push(marking);
    }
    if (isNews) yield* this.#chunks.announceNews();
    return emptied;
  }

  /** Returns whether some chunk has become worth claiming in. */
  *#mark(
    { counting, writing, counts, words }: Marking,
    blocks: readonly FreedBlock[],
    first: number,
    end: number,
    emptied: number[],
  ): Operation<boolean> {
    for (let i = first; i < end; i++) {
      const { address, units, catalog } = blocks[i];
      const chunk = this.#chunks.chunkOf(address);
      counts.set(chunk, (counts.get(chunk) ?? 0) + 1);
      this.#chunks.survey.note(useOf(catalog, units), chunk);
      writing.write(this.#layout.stateByteOf(address, units), 1, this.#freeByte, 0);
    }
    words.ensure(FAA_BYTES * counts.size);
    let at = 0;
    for (const [chunk, count] of counts) {
      words.i64[at >> 3] = freeBlocks(count);
      counting.faa(this.#layout.chunkWord(chunk), words, at);
      at += FAA_BYTES;
    }
    yield counting;
    yield writing;
    let isNews = false;
    at = 0;
    for (const [chunk, count] of counts) {
      const { state, free, units } = unpackChunk(words.i64[(at + 8) >> 3]);
      invariant(isCarved(state), 'blocks are freed in a chunk that holds no blocks');
      const all = blocksPerChunk(units);
      const worthwhile = worthwhileOf(all);
      if (free < worthwhile && free + count >= worthwhile) isNews = true;
      if (free + count >= all) emptied.push(chunk);
      at += FAA_BYTES;
    }
    return isNews;
  }
}

/** Memory of one flush at a time: batches that have grown to what a flush posts. */
class Marking {
  readonly counting = new Batch();
  readonly writing = new Batch();
  /** By chunk: how many of its blocks come free. */
  readonly counts = new Map<number, number>();
  readonly words = new Scratch(64);

  begin(): this {
    this.counting.clear();
    this.writing.clear();
    this.counts.clear();
    return this;
  }
}
