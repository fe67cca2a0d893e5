import { invariant } from '../../errors.ts';
import { type Address, UNIT_BYTES } from '../../verbs/index.ts';
import { BLOCK_UNITS_MAX, blocksPerChunk, stateMapBytes } from '../layout.ts';
import { ANY_NODE } from './chunks.ts';

/** How many bytes of blocks a client claims at once: its loss if it dies, until a sweep. */
const CLAIM_BYTES_MAX = 32 * 1024;
export const CLAIM_BLOCKS_MAX = 128;

/** Blocks of one size for one store, claimed ahead of need by this client. */
export class SizeClass {
  readonly catalog: number;
  readonly units: number;
  /** The memory node that its chunks are on, or ANY_NODE. */
  readonly node: number;
  readonly blocks: number;
  readonly mapBytes: number;
  /** Claimed blocks that are not in use, the next one last. */
  readonly cache: Address[] = [];
  readonly chunks: number[] = [];
  readonly batch: number;
  /** The chunk being carved: its start, a copy of its state bytes, and how far it was carved. */
  current: { start: Address; map: Uint8Array; next: number } | undefined;
  examined = 0;
  refilling = false;
  /** Whether a block was taken since blocks were last claimed ahead. */
  wanted = false;
  /** Whether its empty chunks are for any class of the store that shares: see `shareChunks`. */
  shares = false;

  constructor(catalog: number, units: number, node: number = ANY_NODE) {
    const isSize = units >= 1 && units <= BLOCK_UNITS_MAX;
    invariant(isSize, `a chunk of store ${catalog} holds blocks of ${units} units`);
    this.catalog = catalog;
    this.units = units;
    this.node = node;
    this.blocks = blocksPerChunk(units);
    this.mapBytes = stateMapBytes(this.blocks);
    const fitting = Math.floor(CLAIM_BYTES_MAX / (units * UNIT_BYTES));
    this.batch = Math.max(1, Math.min(CLAIM_BLOCKS_MAX, fitting));
  }

  /** Whether blocks should be claimed ahead, so that no operation has to wait for them. */
  get isLow(): boolean {
    return this.wanted && this.cache.length < this.batch / 2;
  }

  /** The next claimed block, or 0 when `refill` must run first. */
  take(): Address {
    this.wanted = true;
    return this.cache.length === 0 ? 0 : (this.cache.pop() as Address);
  }

  blockAt(start: Address, index: number): Address {
    return start + this.mapBytes + index * this.units * UNIT_BYTES;
  }
}
