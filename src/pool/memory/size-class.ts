import { invariant } from '../../errors.ts';
import { type Address, UNIT_BYTES } from '../../verbs/index.ts';
import { BLOCK_UNITS_MAX, blocksPerChunk, stateMapBytes } from '../layout.ts';
import { ANY_NODE } from './chunks.ts';

/** Most that a client claims ahead at once. If it dies, this much is lost until a sweep. */
const CLAIM_BYTES_MAX = 32 * 1024;
export const CLAIM_BLOCKS_MAX = 128;
/** The same in a full pool, where other clients need what this one holds. */
const TIGHT_CLAIM_BYTES_MAX = 8 * 1024;
const TIGHT_CLAIM_BLOCKS_MAX = 16;

/** Blocks of one size for one store, claimed ahead of need by this client. */
export class SizeClass {
  readonly catalog: number;
  readonly units: number;
  /** The memory node that its chunks are on, or ANY_NODE. */
  readonly node: number;
  readonly blocks: number;
  readonly mapBytes: number;
  /** Claimed blocks that are not in use, the next one last. Empty while the client is idle. */
  readonly cache: Address[] = [];
  /** The chunk to claim in, and the block from which to search for free ones. */
  current: { chunk: number; next: number } | undefined;
  /** How many blocks to claim at once: few at first, more each time the cache runs dry. */
  batch = 1;
  refilling = false;
  /** Operations that wait for the one that claims blocks. */
  waiting = 0;
  /** Whether, at the last refill, no chunk was worth claiming in and none was free for any use. */
  isScarce = false;
  /** Blocks taken since the cache was given back. */
  #taken = 0;
  /** Whether a block was taken since blocks were last claimed ahead. */
  wanted = false;

  constructor(catalog: number, units: number, node: number = ANY_NODE) {
    const isSize = units >= 1 && units <= BLOCK_UNITS_MAX;
    invariant(isSize, `a chunk of store ${catalog} holds blocks of ${units} units`);
    this.catalog = catalog;
    this.units = units;
    this.node = node;
    this.blocks = blocksPerChunk(units);
    this.mapBytes = stateMapBytes(this.blocks);
  }

  /** How many blocks a client may claim ahead at once. */
  claimsMax(isTight: boolean): number {
    const bytes = isTight ? TIGHT_CLAIM_BYTES_MAX : CLAIM_BYTES_MAX;
    const blocks = isTight ? TIGHT_CLAIM_BLOCKS_MAX : CLAIM_BLOCKS_MAX;
    const fitting = Math.floor(bytes / (this.units * UNIT_BYTES));
    return Math.max(1, Math.min(blocks, fitting));
  }

  /** Whether blocks should be claimed ahead, so that no operation has to wait for them. */
  get isLow(): boolean {
    return this.wanted && this.cache.length < this.batch / 2;
  }

  /** The next claimed block, or 0 when `refill` must run first. */
  take(): Address {
    this.wanted = true;
    if (this.cache.length === 0) return 0;
    this.#taken++;
    return this.cache.pop() as Address;
  }

  /** Whether blocks were taken since the cache was given back. */
  get isUsed(): boolean {
    return this.#taken > 0;
  }

  /** Takes out all cached blocks. The next burst first claims as many as this one has used. */
  empty(): Address[] {
    this.batch = Math.max(1, Math.min(this.batch, this.#taken));
    this.#taken = 0;
    return this.cache.splice(0);
  }

  /** With this many free blocks, a chunk is preferred to an unused one. */
  get worthwhile(): number {
    return worthwhileOf(this.blocks);
  }

  blockAt(start: Address, index: number): Address {
    return start + this.mapBytes + index * this.units * UNIT_BYTES;
  }
}

const WORTHWHILE_SHARE = 8;

export function worthwhileOf(blocks: number): number {
  return Math.max(1, Math.floor(blocks / WORTHWHILE_SHARE));
}
