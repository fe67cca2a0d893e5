import { hasCode, invariant, type StepwellError } from '../../errors.ts';
import type { FileLocks } from '../../fabrics/shared/file-locks.ts';
import { type Address, addressOf, type Operation, offsetOf, regionOf } from '../../verbs/index.ts';
import { control } from '../control.ts';
import { type PoolLayout, REGIONS_MAX, SUPERBLOCK } from '../layout.ts';
import type { ChunkWord } from './chunk-word.ts';

const PAGE_BYTES = 4096;

/** What a pool needs of the machine below the verbs. */
export interface PoolMemory {
  /** Whether clients of several processes can have it. */
  readonly isInFile?: boolean;
  /** Present for a pool in a file, where the system has them. */
  readonly locks?: FileLocks;
  extend(regions: number): void;
  reserve(region: number, offset: number, bytes: number): void;
}

/** What a client takes chunks for. */
export interface Demand {
  /** What the chunks' words become. */
  word: ChunkWord;
  /** Who takes them. Words of chunks of blocks do not say. */
  owner: number;
  node: number;
  /** How many bytes from the first chunk's start on the client touches without asking again. */
  bytes: number;
  /** Why the system refused memory for a chunk that could have been taken, if it did. */
  refusal?: StepwellError;
}

/**
 * The system's memory below the chunks. A client has it taken **before** the CAS that makes a chunk
 * its own. So a chunk that the system refuses stays what it is. If the client dies after the CAS,
 * the chunk's next owner can write to it without a bus error. Memory that was taken stays with its
 * chunk, free or not: a client that reads by an old address may still touch it.
 */
export class ChunkMemory {
  readonly #layout: PoolLayout;
  readonly #memory: PoolMemory;

  constructor(layout: PoolLayout, memory: PoolMemory) {
    this.#layout = layout;
    this.#memory = memory;
  }

  /** Makes the pool cover a chunk. Raises SW_POOL_FULL. */
  *extendTo(chunk: number): Operation<void> {
    const needed = this.#layout.regionsFor(chunk);
    for (;;) {
      const regions = yield* this.regionCount();
      if (regions >= needed) return;
      this.#memory.extend(regions + 1);
      const table = this.#layout.addedTableBytes(regions);
      if (table > 0) this.reserve(addressOf(regions, 0), table);
      yield* control.swap(SUPERBLOCK.regionCount, BigInt(regions), BigInt(regions + 1));
    }
  }

  /**
   * How many regions the pool has by now; the layout learns how many it may have. Raises
   * SW_POOL_CORRUPT.
   */
  *regionCount(): Operation<number> {
    const regions = Number(yield* control.load(SUPERBLOCK.regionCount));
    // Raised before, and read after it: no region is there that the maximum does not allow.
    if (regions > this.#layout.regionsMax) yield* this.readRaised();
    const { regionsMax } = this.#layout;
    invariant(regions >= 1 && regions <= regionsMax, `${regions} regions of ${regionsMax}`);
    return regions;
  }

  /** The layout learns how many regions the pool may have by now. Raises SW_POOL_CORRUPT. */
  *readRaised(): Operation<void> {
    this.#layout.raise(Number(yield* control.load(SUPERBLOCK.regionsRaised)));
  }

  /** Whether the word of a chunk, which may be any number, is there to be read. */
  *hasWord(chunk: number): Operation<boolean> {
    if (!(chunk >= this.#layout.reservedChunks) || this.#layout.isAddedTable(chunk)) return false;
    const needed = this.#layout.regionsForWord(chunk);
    return needed === 1 || needed <= (yield* this.regionCount());
  }

  /** Raises the pool's maximum to `regions`; returns the maximum by now. */
  *raise(regions: number): Operation<number> {
    // Each failed swap means that another grower has raised the word, to REGIONS_MAX at most.
    for (let attempt = 0; attempt < REGIONS_MAX; attempt++) {
      const before = yield* control.load(SUPERBLOCK.regionsRaised);
      this.#layout.raise(Number(before));
      if (this.#layout.regionsMax >= regions) return this.#layout.regionsMax;
      if (yield* control.swap(SUPERBLOCK.regionsRaised, before, BigInt(regions))) {
        this.#layout.raise(regions);
        return regions;
      }
    }
    return invariant(false, 'the maximum of the pool changes again and again') as never;
  }

  /** Takes the range from the operating system now; see RegionSource.reserve. */
  reserve(address: Address, bytes: number): void {
    const offset = offsetOf(address);
    const start = Math.floor(offset / PAGE_BYTES) * PAGE_BYTES;
    const end = Math.ceil((offset + bytes) / PAGE_BYTES) * PAGE_BYTES;
    this.#memory.reserve(regionOf(address), start, end - start);
  }

  /** Takes the demanded bytes at a chunk; false, and the demand says why, when they are refused. */
  backs(demand: Demand, chunk: number): boolean {
    try {
      this.reserve(this.#layout.chunkStart(chunk), demand.bytes);
      return true;
    } catch (error) {
      demand.refusal = fullError(error);
      return false;
    }
  }
}

/** The error, if it says that there is no memory left; raises any other. */
export function fullError(error: unknown): StepwellError {
  if (hasCode(error, 'SW_POOL_FULL')) return error;
  throw error;
}
