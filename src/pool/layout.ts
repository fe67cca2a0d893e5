import { invariant, StepwellError } from '../errors.ts';
import { type Address, addressOf, offsetOf, regionOf, UNIT_BYTES } from '../verbs/index.ts';

/**
 * Layout version of pools that this code reads and writes. Change it with every change of a byte's
 * meaning in the superblock, the tables, the records or an index.
 */
export const LAYOUT_VERSION = 17;

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
  /** How many regions the pool may have since it was raised; 0 when it was not: see `grow`. */
  regionsRaised: 80,
  catalogLock: 128,
  epoch: 256,
  /** How often an index has moved memory that clients go by without looking; see reclamation.ts. */
  migrations: 264,
  /** Not 0 when the pool was destroyed while clients were attached. */
  destroyed: 272,
  /** How often a store was dropped: a client then looks whether it has that store open. */
  drops: 280,
  /** The phase of sweeps: odd during one. See indexes/sweep.ts. */
  sweepPhase: 288,
  /** A hint of where chunks begin that were never taken: see memory/chunks.ts. */
  frontier: 296,
  /** Counts chunks that were recycled, or much of which came free: see memory/chunk-survey.ts. */
  chunkNews: 320,
  sweeper: 384,
} as const;

export const PARAMETER_BYTES = 64;

export const CATALOG_OFFSET = 4096;
/** At most 64: a client's row has a bit for each store. */
export const CATALOG_ENTRIES = 64;
export const CATALOG_ENTRY_BYTES = 128;
/** Behind the catalog, a line for each store: words that clients change while it is in use. */
export const STORE_WORDS_OFFSET = CATALOG_OFFSET + CATALOG_ENTRIES * CATALOG_ENTRY_BYTES;
export const STORE_WORDS_BYTES = 64;
export const CLIENTS_OFFSET = STORE_WORDS_OFFSET + CATALOG_ENTRIES * STORE_WORDS_BYTES;
/** Two lines: adjacent-line prefetch would make neighbours share otherwise. */
export const CLIENT_ENTRY_BYTES = 128;
/** Client ids have 12 bits in a chunk word; id 0 means no client. */
export const CLIENTS_MAX = 4095;

/** What a client is about to do under a lock: `intents/`. Slots of each client on each node. */
export const INTENTS_PER_CLIENT = 32;
export const INTENT_BYTES = 1024;
/** Clients, by their rows, whose intent slots on a node stand in one chunk. */
export const CLIENTS_PER_INTENT_CHUNK = CHUNK_BYTES / (INTENTS_PER_CLIENT * INTENT_BYTES);

/** Most regions that an address can name. */
export const REGIONS_MAX = 1024;

export interface PoolParameters {
  regionBytes: number;
  /** At creation, which the tables of region 0 are sized for. */
  regionsMax: number;
  /** Since the pool was raised; as many as at creation when left out. */
  regionsRaised?: number;
  clientsMax: number;
  chunkBytes: number;
  createdAt: number;
  poolId: number;
  /** Memory nodes over which regions and chunks are dealt out in turn; 1 when left out. */
  nodes?: number;
}

/**
 * Where everything stands in a pool of the given parameters. The chunk words of regions that were
 * added to the maximum later stand in these regions themselves, those of a stripe at the start of
 * its first region. So a pool can be raised while clients are attached: nothing moves.
 */
export class PoolLayout {
  readonly parameters: PoolParameters;
  readonly chunksPerRegion: number;
  readonly chunkTable: number;
  /** Chunks whose words stand in region 0. */
  readonly #firstChunks: number;
  /** Chunks at the start of an added stripe that its chunk words take. */
  readonly #addedTable: number;
  /** How many regions the pool may have, as far as this client knows. */
  #regionsMax: number;
  /**
   * Consecutive chunks go round this many regions, one a node: chunk n + stripe is the next of the
   * same region.
   */
  readonly stripe: number;
  /** A word for each chunk of intent slots: its number, or 0 while there is none. */
  readonly #intentTable: number;
  /** Groups of clients whose intent slots share a chunk. */
  readonly intentGroups: number;
  /** Chunks before the first usable one: those of region 0 hold the superblock and the tables. */
  readonly reservedChunks: number;

  constructor(parameters: PoolParameters) {
    this.parameters = parameters;
    this.chunksPerRegion = parameters.regionBytes / parameters.chunkBytes;
    this.#firstChunks = this.chunksPerRegion * parameters.regionsMax;
    this.#regionsMax = parameters.regionsRaised ?? parameters.regionsMax;
    this.chunkTable = CLIENTS_OFFSET + parameters.clientsMax * CLIENT_ENTRY_BYTES;
    this.stripe = parameters.nodes ?? 1;
    const addedWords = 8 * this.chunksPerRegion * this.stripe;
    this.#addedTable = Math.ceil(addedWords / parameters.chunkBytes);
    this.#intentTable = this.chunkTable + 8 * this.#firstChunks;
    this.intentGroups = Math.ceil(parameters.clientsMax / CLIENTS_PER_INTENT_CHUNK);
    const end = this.#intentTable + 8 * this.intentGroups * this.stripe;
    const reserved = Math.ceil(end / parameters.chunkBytes);
    this.reservedChunks = reserved * this.stripe;
    if (reserved + 3 > this.chunksPerRegion) {
      const needed = (reserved + 3) * parameters.chunkBytes;
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

  /** This client has read that the pool was raised. Raises SW_POOL_CORRUPT. */
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

  /** How many chunk words, from this chunk's on, stand in one piece. */
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
    return addressOf(firstRegion + (inStripe % stripe), inRegion * this.parameters.chunkBytes);
  }

  chunkAt(region: number, offset: number): number {
    const { stripe } = this;
    const inRegion = Math.floor(offset / this.parameters.chunkBytes);
    const node = region % stripe;
    return (region - node) * this.chunksPerRegion + inRegion * stripe + node;
  }

  /** The memory node that a chunk lies on, counted from 0. */
  nodeOfChunk(chunk: number): number {
    return chunk % this.stripe;
  }

  /** The memory node that an address is on, counted from 0. */
  nodeOf(address: Address): number {
    return regionOf(address) % this.stripe;
  }

  /** How many chunks of its region stand before this one. */
  chunksBefore(chunk: number): number {
    return Math.floor((chunk % (this.chunksPerRegion * this.stripe)) / this.stripe);
  }

  /** Regions that there must be for a chunk to be there. */
  regionsFor(chunk: number): number {
    return this.#firstRegion(chunk) + this.stripe;
  }

  /** Regions that there must be for a chunk's word to be there. */
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
    // The catalog stands in front of the table.
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

/** Bytes of state that a chunk of `blocks` blocks keeps in front of them, in whole units. */
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
