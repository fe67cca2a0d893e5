import { invariant, StepwellError } from '../errors.ts';
import { type Address, addressOf, offsetOf, regionOf, UNIT_BYTES } from '../verbs/index.ts';

/**
 * Layout version of pools that this code reads and writes. Change it with every change of a byte's
 * meaning in the superblock, the tables, the records or an index.
 */
export const LAYOUT_VERSION = 19;

/** Memory is divided into chunks; each is carved into blocks of one size for one store. */
export const CHUNK_BYTES = 256 * 1024;

export const MAGIC = 0x4c_4c_45_57_50_45_54_53n; // "STEPWELL" in little-endian bytes

/** Superblock words, by byte offset in region 0. Words that clients change have their own line. */
export const SUPERBLOCK = {
  magic: 0,
  versionAndChecksum: 8,
  regionBytes: 16,
  regionsMax: 24,
  clientsMax: 32,
  chunkBytes: 40,
  createdAt: 48,
  poolId: 56,
  regionCount: 64,
  /** For a pool over several memory nodes: a digest of the other nodes' marks; 0 with one node. */
  nodesDigest: 72,
  /** How many regions the pool may have since `grow` raised the maximum; 0 if it never did. */
  regionsRaised: 80,
  catalogLock: 128,
  epoch: 256,
  /** How often an index has moved memory that clients find by cached addresses: reclamation.ts. */
  migrations: 264,
  /** Not 0 when the pool was destroyed while clients were attached. */
  destroyed: 272,
  /** How often a store was dropped. On a change a client checks its open stores. */
  drops: 280,
  /** The phase of sweeps: odd during one. See indexes/sweep.ts. */
  sweepPhase: 288,
  /** A hint: the first chunk that was never taken. See memory/chunks.ts. */
  frontier: 296,
  /** Counts chunks that were recycled or became partly free: see memory/chunk-survey.ts. */
  chunkNews: 320,
  sweeper: 384,
} as const;

export const PARAMETER_BYTES = 64;

export const CATALOG_OFFSET = 4096;
/** At most 64: a client's row has a bit for each store. */
export const CATALOG_ENTRIES = 64;
export const CATALOG_ENTRY_BYTES = 128;
/** Behind the catalog: a line for each store, with words that clients change while using it. */
export const STORE_WORDS_OFFSET = CATALOG_OFFSET + CATALOG_ENTRIES * CATALOG_ENTRY_BYTES;
export const STORE_WORDS_BYTES = 64;
export const CLIENTS_OFFSET = STORE_WORDS_OFFSET + CATALOG_ENTRIES * STORE_WORDS_BYTES;
/** Two lines, because adjacent-line prefetch would make neighbouring rows share. */
export const CLIENT_ENTRY_BYTES = 128;
/** Client ids have 12 bits in a chunk word; id 0 means no client. */
export const CLIENTS_MAX = 4095;

/** Intent slots of each client on each node: see `intents/`. */
export const INTENTS_PER_CLIENT = 32;
export const INTENT_BYTES = 1024;
/** How many clients' intent slots on a node share a chunk. */
export const CLIENTS_PER_INTENT_CHUNK = CHUNK_BYTES / (INTENTS_PER_CLIENT * INTENT_BYTES);

/** Most regions that an address can name. */
export const REGIONS_MAX = 1024;

export interface PoolParameters {
  regionBytes: number;
  /** The maximum at creation, for which the tables of region 0 are sized. */
  regionsMax: number;
  /** The maximum since `grow` raised it; by default that at creation. */
  regionsRaised?: number;
  clientsMax: number;
  createdAt: number;
  poolId: number;
  /** Memory nodes over which regions and chunks are striped; 1 by default. */
  nodes?: number;
}

/**
 * Where everything is in a pool with these parameters. Regions that were added to the maximum later
 * hold their own chunk words, those of a stripe at the start of its first region. So a pool can
 * grow while clients are attached: nothing moves.
 */
export class PoolLayout {
  readonly parameters: PoolParameters;
  readonly chunksPerRegion: number;
  readonly chunkTable: number;
  /** Chunks whose words are in region 0. */
  readonly #firstChunks: number;
  /** How many chunks, at the start of an added stripe, its chunk words take. */
  readonly #addedTable: number;
  /** The maximum number of regions that this client knows. */
  #regionsMax: number;
  /**
   * Consecutive chunks are in this many regions in turn, one on each node: chunk n + stripe follows
   * chunk n in its region.
   */
  readonly stripe: number;
  /** For each group and node, the number of its chunk of intent slots, or 0. */
  readonly #intentTable: number;
  /** Groups of clients whose intent slots share a chunk. */
  readonly intentGroups: number;
  /** Chunks before the first usable one: those of region 0 hold the superblock and the tables. */
  readonly reservedChunks: number;

  constructor(parameters: PoolParameters) {
    this.parameters = parameters;
    this.chunksPerRegion = parameters.regionBytes / CHUNK_BYTES;
    this.#firstChunks = this.chunksPerRegion * parameters.regionsMax;
    this.#regionsMax = parameters.regionsRaised ?? parameters.regionsMax;
    this.chunkTable = CLIENTS_OFFSET + parameters.clientsMax * CLIENT_ENTRY_BYTES;
    this.stripe = parameters.nodes ?? 1;
    const addedWords = 8 * this.chunksPerRegion * this.stripe;
    this.#addedTable = Math.ceil(addedWords / CHUNK_BYTES);
    this.#intentTable = this.chunkTable + 8 * this.#firstChunks;
    this.intentGroups = Math.ceil(parameters.clientsMax / CLIENTS_PER_INTENT_CHUNK);
    const end = this.#intentTable + 8 * this.intentGroups * this.stripe;
    const reserved = Math.ceil(end / CHUNK_BYTES);
    this.reservedChunks = reserved * this.stripe;
    if (reserved + 3 > this.chunksPerRegion) {
      const needed = (reserved + 3) * CHUNK_BYTES;
      throw new StepwellError(
        'SW_POOL_TOO_SMALL',
        `a pool with these parameters needs regions of at least ${needed} bytes`,
      );
    }
  }

  get regionsMax(): number {
    return this.#regionsMax;
  }

  get chunksMax(): number {
    return this.chunksPerRegion * this.#regionsMax;
  }

  /** The most that the pool may hold, in bytes. */
  get bytesMax(): number {
    return this.parameters.regionBytes * this.#regionsMax;
  }

  /** Chunks that hold the superblock and the tables. */
  get tableChunks(): number {
    const added = (this.#regionsMax - this.parameters.regionsMax) / this.stripe;
    return this.reservedChunks + added * this.#addedTable;
  }

  /** Notes a larger maximum, which this client has read. Raises SW_POOL_CORRUPT. */
  raise(regions: number): void {
    if (regions <= this.#regionsMax) return;
    invariant(isRegionCount(regions, this.stripe), `a pool raised to ${regions} regions`);
    this.#regionsMax = regions;
  }

  chunkWord(chunk: number): Address {
    if (chunk < this.#firstChunks) return this.chunkTable + 8 * chunk;
    const inStripe = chunk % (this.chunksPerRegion * this.stripe);
    return addressOf(this.#firstRegion(chunk), 8 * inStripe);
  }

  /** The first region of the chunk's stripe. */
  #firstRegion(chunk: number): number {
    return Math.floor(chunk / (this.chunksPerRegion * this.stripe)) * this.stripe;
  }

  /** How many chunk words are contiguous from this chunk's on. */
  wordsFrom(chunk: number): number {
    if (chunk < this.#firstChunks) return this.#firstChunks - chunk;
    const inStripe = this.chunksPerRegion * this.stripe;
    return inStripe - (chunk % inStripe);
  }

  /** Whether the chunk holds chunk words of regions that were added. */
  isAddedTable(chunk: number): boolean {
    if (chunk < this.#firstChunks || this.nodeOfChunk(chunk) !== 0) return false;
    return this.chunksBefore(chunk) < this.#addedTable;
  }

  /** Bytes of chunk words at the start of a region. */
  addedTableBytes(region: number): number {
    const isFirst = region >= this.parameters.regionsMax && region % this.stripe === 0;
    return isFirst ? 8 * this.chunksPerRegion * this.stripe : 0;
  }

  chunkStart(chunk: number): Address {
    const { stripe } = this;
    const inStripe = chunk % (this.chunksPerRegion * stripe);
    const firstRegion = ((chunk - inStripe) / this.chunksPerRegion) | 0;
    const inRegion = Math.floor(inStripe / stripe);
    return addressOf(firstRegion + (inStripe % stripe), inRegion * CHUNK_BYTES);
  }

  chunkAt(region: number, offset: number): number {
    const { stripe } = this;
    const inRegion = Math.floor(offset / CHUNK_BYTES);
    const node = region % stripe;
    return (region - node) * this.chunksPerRegion + inRegion * stripe + node;
  }

  /** The memory node of a chunk, counted from 0. */
  nodeOfChunk(chunk: number): number {
    return chunk % this.stripe;
  }

  /** The memory node that an address is on, counted from 0. */
  nodeOf(address: Address): number {
    return regionOf(address) % this.stripe;
  }

  /** How many chunks of its region precede this one. */
  chunksBefore(chunk: number): number {
    return Math.floor((chunk % (this.chunksPerRegion * this.stripe)) / this.stripe);
  }

  /** How many regions the pool must have for the chunk to exist. */
  regionsFor(chunk: number): number {
    return this.#firstRegion(chunk) + this.stripe;
  }

  /** How many regions the pool must have for the chunk's word to exist. */
  regionsForWord(chunk: number): number {
    return chunk < this.#firstChunks ? 1 : this.#firstRegion(chunk) + 1;
  }

  /** The address of the state byte of a block of this size. */
  stateByteOf(address: Address, units: number): Address {
    const start = this.chunkStart(this.chunkAt(regionOf(address), offsetOf(address)));
    const mapBytes = stateMapBytes(blocksPerChunk(units));
    const block = (address - start - mapBytes) / (units * UNIT_BYTES);
    invariant(Number.isInteger(block) && block >= 0, 'no block of this size begins there');
    return start + block;
  }

  clientEntry(id: number): Address {
    // The catalog is in front of the table.
    invariant(
      id >= 1 && id <= this.parameters.clientsMax,
      'no row of the client table has this id',
    );
    return CLIENTS_OFFSET + (id - 1) * CLIENT_ENTRY_BYTES;
  }

  /** The word that names the chunk of a group of clients' intent slots on a memory node. */
  intentChunkWord(group: number, node: number): Address {
    const isInTable = group >= 0 && group < this.intentGroups && node < this.stripe;
    invariant(isInTable, 'no chunk of intent slots is for this group and node');
    return this.#intentTable + 8 * (group * this.stripe + node);
  }
}

/** Whether a pool over `nodes` memory nodes can have `regions` regions. */
export function isRegionCount(regions: number, nodes: number): boolean {
  return regions >= 1 && regions <= REGIONS_MAX && regions % nodes === 0;
}

/** Bytes of the state map in front of a chunk's `blocks` blocks, in whole units. */
export function stateMapBytes(blocks: number): number {
  return Math.ceil(blocks / UNIT_BYTES) * UNIT_BYTES;
}

/** How many blocks of `units` lines fit in a chunk with one state byte each. */
export function blocksPerChunk(units: number): number {
  const blockBytes = units * UNIT_BYTES;
  let blocks = Math.floor(CHUNK_BYTES / (blockBytes + 1));
  while (blocks * blockBytes + stateMapBytes(blocks) > CHUNK_BYTES) blocks--;
  return blocks;
}

/** The largest block that a chunk can hold; longer ones are spans of whole chunks. */
export const BLOCK_UNITS_MAX = CHUNK_BYTES / UNIT_BYTES - 1;
