import { invariant } from '../../errors.ts';
import {
  type Address,
  type Batch,
  CAS_BYTES,
  FAA_BYTES,
  type Operation,
  Scratch,
  UNIT_BYTES,
} from '../../verbs/index.ts';
import { CHUNK_BYTES, type PoolLayout, SUPERBLOCK } from '../layout.ts';
import {
  CHUNK_SPAN,
  type ChunkOwner,
  type ChunkWord,
  ownedWord,
  packChunk,
  RECYCLED,
} from './chunk-word.ts';
import { ANY_NODE, type ChunkTable } from './chunks.ts';

/**
 * Spans: contiguous whole chunks of one region, for memory larger than a chunk. The owner frees a
 * span; any client does if the owner is dead and nothing leads to the span.
 */
export class Spans {
  readonly #layout: PoolLayout;
  readonly #chunks: ChunkTable;
  readonly #self: { readonly client: ChunkOwner };

  constructor(layout: PoolLayout, chunks: ChunkTable, self: { readonly client: ChunkOwner }) {
    this.#layout = layout;
    this.#chunks = chunks;
    this.#self = self;
  }

  /**
   * The caller may use the first `bytes`, and must reserve what it uses beyond. Raises
   * SW_POOL_FULL.
   */
  *allocate(
    catalog: number,
    units: number,
    bytes = units * UNIT_BYTES,
    node = ANY_NODE,
  ): Operation<Address> {
    const word = this.#word(catalog);
    const first = yield* this.#chunks.takeSpan(word, chunksFor(units), bytes, node);
    return this.#layout.chunkStart(first);
  }

  /** Gives back a span that no other client knows. */
  *release(catalog: number, address: Address, units: number): Operation<void> {
    const word = this.#word(catalog);
    for (const chunk of this.#chunksAt(address, units)) yield* this.#chunks.release(chunk, word);
  }

  /**
   * Makes this client the owner of a span that it is about to unlink, so that a sweep frees the
   * span if this client dies before it has done so. Returns the chunks.
   */
  *takeOver(catalog: number, address: Address, units: number): Operation<number[]> {
    const taken: number[] = [];
    for (const chunk of this.#chunksAt(address, units)) {
      const word = yield* this.#chunks.wordOf(chunk);
      if (yield* this.takeOverChunk(catalog, chunk, word)) taken.push(chunk);
    }
    return taken;
  }

  /** Makes this client the owner of a chunk of a span, unless the chunk's word has changed. */
  *takeOverChunk(catalog: number, chunk: number, word: ChunkWord): Operation<boolean> {
    if (word.state !== CHUNK_SPAN || word.catalog !== catalog) return false;
    return yield* this.#chunks.handOver(chunk, word, this.#word(catalog));
  }

  /** Adds the verbs that free a chunk of this client's span, which no client can reach any more. */
  free(catalog: number, chunk: number, batch: Batch): void {
    this.recycle(chunk, packChunk(this.#word(catalog)), batch);
  }

  /** Adds the verbs that make a chunk with this word free for any use. */
  recycle(chunk: number, from: bigint, batch: Batch): void {
    const words = new Scratch(CAS_BYTES + FAA_BYTES);
    words.i64[0] = BigInt.asIntN(64, from);
    words.i64[1] = BigInt.asIntN(64, RECYCLED);
    words.i64[CAS_BYTES >> 3] = 1n;
    // If the CAS fails, the news only makes clients read the table once more.
    batch.cas(this.#layout.chunkWord(chunk), words, 0).faa(SUPERBLOCK.chunkNews, words, CAS_BYTES);
  }

  #chunksAt(address: Address, units: number): number[] {
    const first = this.#chunks.chunkOf(address);
    invariant(address === this.#layout.chunkStart(first), 'a span begins inside a chunk');
    return Array.from({ length: chunksFor(units) }, (_, i) => first + i * this.#layout.stripe);
  }

  #word(catalog: number): ChunkWord {
    return ownedWord(CHUNK_SPAN, catalog, 0, this.#self.client);
  }
}

function chunksFor(units: number): number {
  return Math.ceil((units * UNIT_BYTES) / CHUNK_BYTES);
}
