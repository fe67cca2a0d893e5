import { hasCode, invariant, type StepwellError } from '../../errors.ts';
import type { FileLocks } from '../../fabrics/shared/file-locks.ts';
import { GROW } from '../../fabrics/shared/refused-memory.ts';
import { type Address, addressOf, type Operation, offsetOf, regionOf } from '../../verbs/index.ts';
import { control } from '../control.ts';
import { type PoolLayout, REGIONS_MAX, SUPERBLOCK } from '../layout.ts';
import type { ChunkWord } from './chunk-word.ts';

const PAGE_BYTES = 4096;

/** What a pool needs from the machine, besides verbs. */
export interface PoolMemory {
  /** Whether the pool is in a file, which several processes can map. */
  readonly isInFile?: boolean;
  /** Present for a pool in a file, if the system has such locks. */
  readonly locks?: FileLocks;
  /** See RegionSource.remedy. Undefined for a pool over a network. */
  remedy?(): string;
  extend(regions: number): void;
  reserve(region: number, offset: number, bytes: number): void;
}

/** Which chunks a client wants, and for what. */
export interface Demand {
  /** The word to write for each chunk. */
  word: ChunkWord;
  /** The client that takes them. The word of a chunk of blocks does not name it. */
  owner: number;
  node: number;
  /** How many bytes, from the first chunk's start, must have memory of the system. */
  bytes: number;
  /** The system's error, if it refused memory for a chunk that was free. */
  refusal?: StepwellError;
}

/**
 * The system's memory below the chunks. A client reserves it **before** the CAS that claims a
 * chunk. So a chunk for which the system refuses memory stays free. If the client dies after the
 * CAS, the chunk's next owner can write to it without a bus error. A chunk keeps its memory even
 * when it is free, because a client may still read it by an old address.
 */
export class ChunkMemory {
  readonly #layout: PoolLayout;
  readonly #memory: PoolMemory;

  constructor(layout: PoolLayout, memory: PoolMemory) {
    this.#layout = layout;
    this.#memory = memory;
  }

  /** How the full pool can hold more. */
  remedy(): string {
    return this.#memory.remedy?.() ?? GROW;
  }

  /** Adds regions until the pool covers a chunk. Raises SW_POOL_FULL. */
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
   * How many regions the pool has now. Updates the layout if the pool's maximum was raised. Raises
   * SW_POOL_CORRUPT.
   */
  *regionCount(): Operation<number> {
    const regions = Number(yield* control.load(SUPERBLOCK.regionCount));
    // A grower raises the maximum before it adds a region, and this reads it after the count. So
    // the maximum read here allows every region counted.
    if (regions > this.#layout.regionsMax) yield* this.readRaised();
    const { regionsMax } = this.#layout;
    invariant(regions >= 1 && regions <= regionsMax, `${regions} regions of ${regionsMax}`);
    return regions;
  }

  /** Updates the layout's maximum number of regions from the pool. Raises SW_POOL_CORRUPT. */
  *readRaised(): Operation<void> {
    this.#layout.raise(Number(yield* control.load(SUPERBLOCK.regionsRaised)));
  }

  /** Whether `chunk`, which may be any number, is a chunk whose word can be read. */
  *hasWord(chunk: number): Operation<boolean> {
    if (!(chunk >= this.#layout.reservedChunks) || this.#layout.isAddedTable(chunk)) return false;
    const needed = this.#layout.regionsForWord(chunk);
    return needed === 1 || needed <= (yield* this.regionCount());
  }

  /** Raises the pool's maximum to at least `regions`, and returns it. */
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
    return invariant(false, "the pool's maximum keeps changing") as never;
  }

  /** Reserves memory of the operating system for the range; see RegionSource.reserve. */
  reserve(address: Address, bytes: number): void {
    const offset = offsetOf(address);
    const start = Math.floor(offset / PAGE_BYTES) * PAGE_BYTES;
    const end = Math.ceil((offset + bytes) / PAGE_BYTES) * PAGE_BYTES;
    this.#memory.reserve(regionOf(address), start, end - start);
  }

  /** Reserves the demanded bytes at a chunk. If refused, returns false and sets `refusal`. */
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

/** Returns the error if it is SW_POOL_FULL; raises any other. */
export function fullError(error: unknown): StepwellError {
  if (hasCode(error, 'SW_POOL_FULL')) return error;
  throw error;
}
