import { hasCode, invariant } from '../../errors.ts';
import { control } from '../../pool/control.ts';
import { CHUNK_BYTES, type PoolLayout } from '../../pool/layout.ts';
import { fullError } from '../../pool/memory/chunk-memory.ts';
import { ANY_NODE } from '../../pool/memory/chunks.ts';
import type { Pool } from '../../pool/pool.ts';
import {
  type Address,
  Batch,
  highHalf,
  lowHalf,
  NULL_ADDRESS,
  type Operation,
  Scratch,
  setWord,
  UNIT_BYTES,
} from '../../verbs/index.ts';
import { addressesIn, checkOf, sumOf, writeAddresses } from './address-list.ts';

/** Bytes of the root's first line: the global depth and the addresses of the further parts. */
const HEADER_BYTES = 64;
const ENTRY_BYTES = 8;
/** The first part, and seven whose addresses fit the header. */
const PARTS_MAX = 8;
/** Each part takes at least a chunk, too much for fewer bytes of entries than this. */
const PART_BYTES_MIN = 1024;
/** A part takes no more of a region, so that no directory needs a region of its own. */
const REGION_SHARE_MAX = 1 / 8;
/** Largest share of the pool's chunks that parts may take without filling them. */
const POOL_SHARE_MAX = 1 / 8;
const LOAD_BYTES = 32 * 1024;
/**
 * How many depths ahead a growing directory reserves memory, because its entries cannot go anywhere
 * else. Otherwise, on a full file system, a store whose records become smaller and more numerous
 * would have room for everything except the entries. An entry takes less than a thousandth of the
 * memory that it leads to.
 */
const DEPTHS_AHEAD = 3;

/** Bits of a directory's suffixes: at first and at most. */
export interface Depths {
  readonly initialDepth: number;
  readonly maxDepth: number;
}

/** How a directory is made. */
export interface PartOptions {
  /** How many parts. */
  readonly count?: number;
  /** Extra bytes behind the first part, for the index: see `spare`. */
  readonly spareBytes?: number;
}

/** An entry's word, as two halves. */
export interface EntryWord {
  low: number;
  high: number;
}

/** Reserves memory with the operating system: `ChunkTable.reserve`. */
interface Reserves {
  reserve(address: Address, bytes: number): void;
}

/**
 * Divides the entries of a directory by their lowest k bits into 2^k parts. The parts are spans on
 * different memory nodes, or in different regions.
 *
 *   root    0  the list of parts 1, 2, … with the global depth as its number (address-list.ts);
 *              0 behind the last
 *          64  entries of part 0
 *   part p     entries p, p + 2^k, p + 2 * 2^k, …
 *
 * Entries come into use from the lowest index on, so parts by lowest bits all fill at the same rate
 * at every depth. From depth k on, all entries that a key may have are also in one part, hence on
 * one node. Parts never move: a client reads their addresses once, with the depth. Whenever it
 * reads the depth it verifies the list's check.
 */
export class DirectoryParts {
  readonly root: Address;
  readonly #starts: readonly Address[];
  readonly #depths: Depths;
  readonly #bits: number;
  readonly #sum: number;

  private constructor(root: Address, others: readonly Address[], depths: Depths) {
    this.root = root;
    this.#starts = [root + HEADER_BYTES, ...others];
    this.#depths = depths;
    this.#bits = Math.log2(this.#starts.length);
    this.#sum = sumOf(others);
    invariant(Number.isInteger(this.#bits), `a directory of ${others.length + 1} parts`);
  }

  get count(): number {
    return this.#starts.length;
  }

  /** The index's extra memory behind the first part (`spareBytes`), aligned to a line. */
  get spare(): Address {
    const bytes = HEADER_BYTES + (ENTRY_BYTES * 2 ** this.#depths.maxDepth) / this.count;
    return this.root + UNIT_BYTES * Math.ceil(bytes / UNIT_BYTES);
  }

  /** The address of entry `index`. */
  entry(index: number): Address {
    const part = index & (this.count - 1);
    return this.#starts[part] + ENTRY_BYTES * (index >>> this.#bits);
  }

  /** The index of the entry at `address`. */
  indexAt(address: Address): number {
    const bytes = (ENTRY_BYTES * 2 ** this.#depths.maxDepth) / this.count;
    const part = this.#starts.findIndex((start) => address >= start && address < start + bytes);
    invariant(part >= 0, `no entry of the directory stands at ${address}`);
    return ((address - this.#starts[part]) / ENTRY_BYTES) * this.count + part;
  }

  /** The global depth as it is now. */
  *readDepth(): Operation<number> {
    const word = yield* control.load(this.root);
    return this.#depthIn(Number(word & 0xffffffffn), Number(word >> 32n));
  }

  #depthIn(depth: number, check: number): number {
    const { initialDepth, maxDepth } = this.#depths;
    invariant(depth >= initialDepth && depth <= maxDepth, `global depth is ${depth}`);
    const isWhole = check === checkOf(depth, this.#sum) >>> 0;
    invariant(isWhole, `the parts of the directory at ${this.root} are not those it was made of`);
    return depth;
  }

  /** The first word of the root. */
  #word(depth: number): bigint {
    return (BigInt(checkOf(depth, this.#sum) >>> 0) << 32n) | BigInt(depth);
  }

  /** Makes the global depth greater than `depth`. Returns whether this client did it. */
  *deepen(depth: number, memory: Reserves): Operation<boolean> {
    const now = yield* this.readDepth();
    if (now > depth) return false;
    // A client splits only subtables to which the directory leads.
    invariant(depth < this.#depths.maxDepth, 'a split at the maximum depth of the directory');
    invariant(now === depth, `a split at depth ${depth} of a directory of depth ${now}`);
    this.#reserveAhead(memory, depth + 1);
    // From exactly `depth`: a slow splitter can never write a smaller depth back.
    return yield* control.swap(this.root, this.#word(depth), this.#word(depth + 1));
  }

  /** Reserves the memory that a directory of this depth uses. Raises SW_POOL_FULL. */
  #reserve(memory: Reserves, depth: number): void {
    const bytes = bytesAt(depth, this.#depths.maxDepth, this.count);
    for (const start of this.#starts) memory.reserve(start, bytes);
  }

  /** As `#reserve`, and for DEPTHS_AHEAD more depths if the system has the memory. */
  #reserveAhead(memory: Reserves, depth: number): void {
    try {
      this.#reserve(memory, depth + DEPTHS_AHEAD);
    } catch (error) {
      fullError(error);
      this.#reserve(memory, depth);
    }
  }

  /** Visits entries 0 to 2^depth - 1 in any order; a doorbell reads some of every part. */
  *each(depth: number, visit: (index: number, low: number, high: number) => void): Operation<void> {
    const used = Math.min(this.count, 2 ** depth);
    const perPart = 2 ** depth / used;
    const perRead = Math.min(LOAD_BYTES / used / ENTRY_BYTES, perPart);
    const area = new Scratch(used * perRead * ENTRY_BYTES);
    for (let first = 0; first < perPart; first += perRead) {
      const batch = new Batch();
      for (let part = 0; part < used; part++) {
        const from = this.#starts[part] + ENTRY_BYTES * first;
        batch.read(from, ENTRY_BYTES * perRead, area, ENTRY_BYTES * perRead * part);
      }
      yield batch;
      for (let i = 0; i < used * perRead; i++) {
        const part = Math.floor(i / perRead);
        const index = (first + (i % perRead)) * this.count + part;
        visit(index, area.i32[2 * i], area.i32[2 * i + 1]);
      }
    }
  }

  /** Fills entries 0, 1, … of a new directory; their number gives its global depth. */
  *fill(words: readonly EntryWord[]): Operation<void> {
    invariant(words.length === 2 ** this.#depths.initialDepth, 'a directory is not filled whole');
    const area = new Scratch(ENTRY_BYTES * words.length);
    const batch = new Batch();
    words.forEach(({ low, high }, i) => {
      setWord(area, ENTRY_BYTES * i, low, high);
      batch.write(this.entry(i), ENTRY_BYTES, area, ENTRY_BYTES * i);
    });
    yield batch;
    yield* control.store(this.root, this.#word(Math.log2(words.length)));
  }

  /** The parts of a directory, and its global depth. */
  static *read(root: Address, depths: Depths): Operation<{ parts: DirectoryParts; depth: number }> {
    const header = new Scratch(HEADER_BYTES);
    yield new Batch().read(root, HEADER_BYTES, header, 0);
    const others = addressesIn(header, PARTS_MAX - 1);
    while (others.at(-1) === NULL_ADDRESS) others.pop();
    const parts = new DirectoryParts(root, others, depths);
    return { parts, depth: parts.#depthIn(lowHalf(header, 0) >>> 0, highHalf(header, 0) >>> 0) };
  }

  /** Makes the parts of a directory without entries, on one memory node after the other. */
  static *make(
    { allocator, chunks, layout }: Pick<Pool, 'allocator' | 'chunks' | 'layout'>,
    catalog: number,
    depths: Depths,
    { count = partsFor(layout, depths.maxDepth), spareBytes = 0 }: PartOptions = {},
  ): Operation<DirectoryParts> {
    const bytes = (ENTRY_BYTES * 2 ** depths.maxDepth) / count;
    const units = (size: number) => Math.ceil(size / UNIT_BYTES);
    const first = bytesAt(depths.initialDepth, depths.maxDepth, count);
    const whole = units(HEADER_BYTES + bytes) + units(spareBytes);
    const root = yield* allocator.spans.allocate(catalog, whole, HEADER_BYTES + first);
    const others: Address[] = [];
    for (let part = 1; part < count; part++) {
      const node = layout.stripe === 1 ? ANY_NODE : (layout.nodeOf(root) + part) % layout.stripe;
      others.push(yield* takePart(allocator, catalog, units(bytes), first, node));
    }
    const parts = new DirectoryParts(root, others, depths);
    if (spareBytes > 0) {
      try {
        chunks.reserve(parts.spare, spareBytes);
      } catch (error) {
        yield* allocator.spans.release(catalog, root, whole);
        throw error;
      }
    }
    const header = new Scratch(HEADER_BYTES);
    writeAddresses(header, others);
    yield new Batch().write(root, HEADER_BYTES, header, 0);
    return parts;
  }
}

/** Bytes of a part at a depth; at least its first chunk, which nothing else can use. */
function bytesAt(depth: number, maxDepth: number, parts: number): number {
  const used = (ENTRY_BYTES * 2 ** depth) / parts;
  const most = (ENTRY_BYTES * 2 ** maxDepth) / parts;
  return Math.min(most, Math.max(CHUNK_BYTES - HEADER_BYTES, used));
}

/** A span on the node, or anywhere when that one is full. */
function* takePart(
  allocator: Pool['allocator'],
  catalog: number,
  units: number,
  bytes: number,
  node: number,
): Operation<Address> {
  try {
    return yield* allocator.spans.allocate(catalog, units, bytes, node);
  } catch (error) {
    const isFull = hasCode(error, 'SW_POOL_FULL');
    if (!isFull || node === ANY_NODE) throw error;
    return yield* allocator.spans.allocate(catalog, units, bytes);
  }
}

/**
 * How many parts, a power of two: one for each memory node; more if they would be too large for a
 * region; fewer if their chunks would take too much of a small pool.
 */
export function partsFor(
  { stripe, parameters, chunksMax }: Pick<PoolLayout, 'stripe' | 'parameters' | 'chunksMax'>,
  maxDepth: number,
): number {
  const bytes = ENTRY_BYTES * 2 ** maxDepth;
  // When the number of nodes is no power of two, the most parts give the most even shares.
  let count = Number.isInteger(Math.log2(stripe)) ? Math.min(stripe, PARTS_MAX) : PARTS_MAX;
  while (count < PARTS_MAX && bytes / count > parameters.regionBytes * REGION_SHARE_MAX) count *= 2;
  const isTooMany = (size: number) =>
    size < PART_BYTES_MIN || (size < CHUNK_BYTES && count > chunksMax * POOL_SHARE_MAX);
  while (count > 1 && isTooMany(bytes / count)) count /= 2;
  return count;
}
