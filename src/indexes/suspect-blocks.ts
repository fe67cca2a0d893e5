import { BLOCK_FREE, BLOCK_LOCKED, isClaimedIn } from '../pool/memory/block-state.ts';
import { isFor, unpackChunk } from '../pool/memory/chunk-word.ts';
import type { SizeClass } from '../pool/memory/size-class.ts';
import type { Pool } from '../pool/pool.ts';
import { type Address, type Operation, UNIT_BYTES } from '../verbs/index.ts';

/** State bytes of a chunk; 0 for blocks that are not suspect. */
interface SuspectMap {
  readonly sizeClass: SizeClass;
  readonly states: Uint8Array;
}

/** Blocks of a store that dead clients may have lost; a sweep narrows them down (sweep.ts). */
export class SuspectBlocks {
  readonly #pool: Pool;
  readonly #catalog: number;
  readonly #maps = new Map<number, SuspectMap>();

  private constructor(pool: Pool, catalog: number) {
    this.#pool = pool;
    this.#catalog = catalog;
  }

  /** Step 3: all blocks that were claimed before this phase. */
  static *in(pool: Pool, catalog: number): Operation<SuspectBlocks> {
    const suspects = new SuspectBlocks(pool, catalog);
    const { claim } = pool.allocator;
    yield* pool.allocator.eachMap(catalog, (sizeClass, chunk, states) => {
      for (let i = 0; i < states.length; i++) {
        const isLost = !isClaimedIn(states[i], claim) && states[i] !== BLOCK_LOCKED;
        if (!isLost) states[i] = BLOCK_FREE;
      }
      suspects.#maps.set(chunk, { sizeClass, states });
    });
    return suspects;
  }

  /** Clears a block of suspicion. The address may be any number. */
  clear(address: Address): void {
    if (!this.#pool.chunks.isBlockAddress(address)) return;
    const { chunks, layout } = this.#pool;
    const chunk = chunks.chunkOf(address);
    const map = this.#maps.get(chunk);
    if (map === undefined) return;
    const { units, mapBytes, blocks } = map.sizeClass;
    const index = (address - layout.chunkStart(chunk) - mapBytes) / (units * UNIT_BYTES);
    if (Number.isInteger(index) && index >= 0 && index < blocks) map.states[index] = BLOCK_FREE;
  }

  /**
   * Step 6, in an announced epoch: frees the suspects whose state has not changed; returns how
   * many. Reads the chunk's word before and after the states, so that they are known to be states.
   */
  *free(): Operation<number> {
    const { allocator, layout } = this.#pool;
    for (const [chunk, { states }] of this.#maps) {
      if (states.every((state) => state === BLOCK_FREE)) this.#maps.delete(chunk);
    }
    yield* this.#forgetRecycled();
    const left = [...this.#maps].map(([chunk, { sizeClass }]) => ({ chunk, sizeClass }));
    yield* allocator.readMaps(left, (_, chunk, now) => {
      const { states } = this.#maps.get(chunk) as SuspectMap;
      for (let i = 0; i < states.length; i++) if (states[i] !== now[i]) states[i] = BLOCK_FREE;
    });
    yield* this.#forgetRecycled();
    let freed = 0;
    for (const [chunk, { sizeClass, states }] of this.#maps) {
      const start = layout.chunkStart(chunk);
      for (let i = 0; i < sizeClass.blocks; i++) {
        if (states[i] === BLOCK_FREE) continue;
        allocator.free(sizeClass.blockAt(start, i), sizeClass.units, this.#catalog);
        freed++;
      }
    }
    yield* allocator.flushFreed();
    return freed;
  }

  /** Drops chunks that serve another use by now. */
  *#forgetRecycled(): Operation<void> {
    if (this.#maps.size === 0) return;
    const words = new Map(yield* this.#pool.chunks.words());
    for (const [chunk, { sizeClass }] of this.#maps) {
      const word = unpackChunk(words.get(chunk) ?? 0n);
      if (!isFor(this.#catalog, sizeClass.units, word)) this.#maps.delete(chunk);
    }
  }
}
