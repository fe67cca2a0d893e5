import type { Index } from '../../src/indexes/contract.ts';
import { eachReachable, sweep } from '../../src/indexes/sweep.ts';
import { shapeOf } from '../../src/indexes/traversal/count.ts';
import { control } from '../../src/pool/control.ts';
import { blocksPerChunk, stateMapBytes } from '../../src/pool/layout.ts';
import type { LocalPool } from '../../src/pool/local-pool.ts';
import { BLOCK_FREE } from '../../src/pool/memory/block-state.ts';
import {
  CHUNK_FREE,
  type ChunkWord,
  holdsBlocks,
  unpackChunk,
} from '../../src/pool/memory/chunk-word.ts';
import { attach } from '../../src/store/open.ts';
import { type Address, UNIT_BYTES } from '../../src/verbs/index.ts';

/** Describes what a pool with one empty store uses its memory for; `sweeps`: also after a sweep. */
export function describeMemory(url: string, storeName: string, sweeps: boolean): string[] {
  const { client } = attach(url, { create: false });
  try {
    const { index } = client.open({ store: storeName });
    const { pool } = client;
    const { subtables } = pool.run(shapeOf(index));
    const lines = [`${subtables} subtables`, ...new Survey(pool, index).lines];
    if (!sweeps) return lines;
    pool.betweenOperations(() => sweep(pool, index));
    return [...lines, 'after a sweep:', ...new Survey(pool, index).lines];
  } finally {
    client.end();
  }
}

/** A chunk of blocks, with counts of claimed and of reachable blocks. */
interface Chunk {
  word: ChunkWord;
  claimed: number;
  reached: number;
}

/** The chunks of a pool, and how many of their blocks are reachable from the index. */
class Survey {
  readonly #chunks = new Map<number, Chunk>();
  #free = 0;
  #spans = 0;

  constructor(pool: LocalPool, index: Index) {
    const reached = new Set<Address>();
    pool.enter();
    try {
      pool.run(eachReachable(index, (address) => void reached.add(address)));
    } finally {
      pool.exit();
    }
    for (const [chunk, packed] of pool.run(pool.chunks.words())) {
      const word = unpackChunk(packed);
      if (word.state === CHUNK_FREE) this.#free++;
      else if (!holdsBlocks(word.state)) this.#spans++;
      else this.#count(pool, chunk, word, reached);
    }
  }

  #count(pool: LocalPool, chunk: number, word: ChunkWord, all: ReadonlySet<Address>): void {
    const blocks = blocksPerChunk(word.units);
    const start = pool.layout.chunkStart(chunk);
    const states = pool.run(control.readBytes(start, stateMapBytes(blocks)));
    let claimed = 0;
    let reached = 0;
    for (let i = 0; i < blocks; i++) {
      if (states[i] === BLOCK_FREE) continue;
      claimed++;
      const block = start + stateMapBytes(blocks) + i * word.units * UNIT_BYTES;
      if (all.has(block)) reached++;
    }
    this.#chunks.set(chunk, { word, claimed, reached });
  }

  get lines(): string[] {
    const all = [...this.#chunks.values()];
    const lost = all.reduce((sum, { claimed, reached }) => sum + claimed - reached, 0);
    const sizes = this.#bySize(() => 1);
    return [
      `chunks: ${this.#free} free, ${this.#spans} in spans; by lines ${sizes}`,
      `blocks: ${lost} claimed that nothing reaches; the index by lines ${this.#bySize(
        ({ reached }) => reached,
      )}`,
    ];
  }

  #bySize(count: (chunk: Chunk) => number): string {
    const sums = new Map<number, number>();
    for (const chunk of this.#chunks.values()) {
      const { units } = chunk.word;
      sums.set(units, (sums.get(units) ?? 0) + count(chunk));
    }
    const sorted = [...sums].filter(([, sum]) => sum > 0).sort(([a], [b]) => a - b);
    return sorted.map(([units, sum]) => `${units}: ${sum}`).join(', ');
  }
}
