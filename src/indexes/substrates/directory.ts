import { invariant } from '../../errors.ts';
import { control } from '../../pool/control.ts';
import type { ChunkTable } from '../../pool/memory/chunks.ts';
import type { Pool } from '../../pool/pool.ts';
import {
  type Address,
  Batch,
  NULL_ADDRESS,
  type Operation,
  readInteger,
  Scratch,
} from '../../verbs/index.ts';
import { type Depths, DirectoryParts, type PartOptions } from './directory-parts.ts';

/**
 * The directory of extendible hashing by suffix bits, in space reserved for its maximum depth, with
 * the client's cache of it (RACE section 3.4.1). Its words are the global depth and entries of 8
 * bytes each: the address of a subtable, or 0. Layout: `directory-parts.ts`.
 *
 * Entry i always belongs to the one subtable that was made for suffix i. A split of the subtable
 * with suffix s at local depth l fills entry s + 2^l once, by a CAS from 0. An entry of 0 inherits
 * from the entry without its highest bit. So doubling the directory is one CAS on the depth, with
 * nothing to copy. It needs no lock: the client that fills the entry has split the subtable.
 */
const ENTRY_BYTES = 8;

export class Directory {
  readonly parts: DirectoryParts;
  readonly maxDepth: number;
  readonly initialDepth: number;
  readonly #chunks: ChunkTable;
  /** The client's cache: the subtable of each suffix of `depth` bits, with inheritance resolved. */
  #subtables = new Float64Array(1);
  #mask = 0;
  #depth = 0;

  private constructor(
    parts: DirectoryParts,
    { initialDepth, maxDepth }: Depths,
    chunks: ChunkTable,
  ) {
    this.parts = parts;
    this.initialDepth = initialDepth;
    this.maxDepth = maxDepth;
    this.#chunks = chunks;
  }

  /** Global depth as far as this client knows. */
  get depth(): number {
    return this.#depth;
  }

  /**
   * The cached subtable for a hash, without a round trip. It may be stale: the subtable's own
   * header tells.
   */
  lookup(hash: number): Address {
    return this.#subtables[hash & this.#mask];
  }

  /** Every subtable that the cache knows, once. */
  subtables(): Address[] {
    return [...new Set(this.#subtables)];
  }

  /** A client's handle of a directory, with a full cache. */
  static *open(root: Address, depths: Depths, chunks: ChunkTable): Operation<Directory> {
    const { parts, depth } = yield* DirectoryParts.read(root, depths);
    const directory = new Directory(parts, depths, chunks);
    yield* directory.#loadTo(depth);
    return directory;
  }

  /** Reads the used entries of the directory into the cache. */
  *load(): Operation<void> {
    yield* this.#loadTo(yield* this.parts.readDepth());
  }

  *#loadTo(depth: number): Operation<void> {
    const count = 2 ** depth;
    const subtables = new Float64Array(count);
    yield* this.parts.each(depth, (index, low, high) => {
      subtables[index] = (high >>> 0) * 2 ** 32 + (low >>> 0);
    });
    yield* this.#check(subtables);
    for (let i = 0; i < 2 ** this.initialDepth; i++) {
      invariant(subtables[i] !== NULL_ADDRESS, 'the directory lacks an entry it was made with');
    }
    for (let i = 1; i < count; i++) {
      if (subtables[i] === NULL_ADDRESS) subtables[i] = subtables[withoutHighestBit(i)];
    }
    this.#subtables = subtables;
    this.#depth = depth;
    this.#mask = count - 1;
  }

  /**
   * Brings the cache up to date for one hash: 2 round trips. The deepest filled entry among the
   * hash's suffixes is its subtable.
   */
  *refresh(hash: number): Operation<Address> {
    const depth = yield* this.parts.readDepth();
    const words = new Scratch((depth + 1) * ENTRY_BYTES);
    const batch = new Batch();
    for (let d = this.initialDepth; d <= depth; d++) {
      batch.read(this.parts.entry(suffixOf(hash, d)), ENTRY_BYTES, words, d * ENTRY_BYTES);
    }
    yield batch;
    this.#growCache(depth);
    for (let d = depth; d >= this.initialDepth; d--) {
      const subtable = readInteger(words, d * ENTRY_BYTES);
      // Skips the same entry at greater depths: it counts at the depth at which it was filled.
      if (subtable !== NULL_ADDRESS && bornAt(suffixOf(hash, d), this.initialDepth) === d) {
        yield* this.#check([subtable]);
        this.learn(suffixOf(hash, d), d, subtable);
        return subtable;
      }
    }
    return invariant(false, 'the directory has no entry for a suffix') as never;
  }

  /** The child that a split of (suffix, depth) has made, or 0. */
  *child(suffix: number, depth: number): Operation<Address> {
    if (depth >= this.maxDepth) return NULL_ADDRESS;
    if ((yield* this.parts.readDepth()) <= depth) return NULL_ADDRESS;
    const child = Number(yield* control.load(this.parts.entry(suffix + 2 ** depth)));
    yield* this.#check([child]);
    return child;
  }

  /**
   * Checks entries that were read. Raises SW_POOL_CORRUPT if no block can begin where one leads.
   */
  *#check(entries: Float64Array | readonly number[]): Operation<void> {
    const leadsNowhere = (word: number) =>
      word !== NULL_ADDRESS && !this.#chunks.isBlockAddress(word);
    if (!entries.some(leadsNowhere)) return;
    yield* this.#chunks.learnMaximum();
    const word = entries.find(leadsNowhere);
    invariant(word === undefined, `an entry of the directory leads to ${word}`);
  }

  /** Makes the global depth greater than `depth`. Returns whether this client did it. */
  deepen(depth: number): Operation<boolean> {
    return this.parts.deepen(depth, this.#chunks);
  }

  /** Links the child of (suffix, depth). Of all clients that split the subtable, one wins. */
  *link(suffix: number, depth: number, child: Address): Operation<boolean> {
    // An entry filled for a wrong suffix could never be changed.
    const isEntry = suffix >= 0 && suffix < 2 ** depth && depth < this.maxDepth;
    invariant(child !== NULL_ADDRESS && isEntry, 'a split fills no entry of the directory');
    const index = suffix + 2 ** depth;
    const won = yield* control.swap(this.parts.entry(index), 0n, BigInt(child));
    if (won) {
      this.#growCache(depth + 1);
      this.learn(index, depth + 1, child);
    }
    return won;
  }

  /** Replaces the ancestor of (suffix, depth) by `subtable` in the cache. */
  learn(suffix: number, depth: number, subtable: Address): void {
    const count = this.#mask + 1;
    const stride = 2 ** depth;
    const stale = this.#subtables[suffix & this.#mask];
    for (let i = suffix; i < count; i += stride) {
      if (this.#subtables[i] === stale) this.#subtables[i] = subtable;
    }
  }

  #growCache(depth: number): void {
    while (this.#depth < depth) {
      const grown = new Float64Array(2 * this.#subtables.length);
      grown.set(this.#subtables, 0);
      grown.set(this.#subtables, this.#subtables.length);
      this.#subtables = grown;
      this.#depth++;
      this.#mask = grown.length - 1;
    }
  }

  /** Makes a directory that leads to the initial subtables; returns its root. */
  static *build(
    pool: Pick<Pool, 'allocator' | 'chunks' | 'layout'>,
    catalog: number,
    depths: Depths,
    subtables: readonly Address[],
    options: PartOptions = {},
  ): Operation<Address> {
    const isWhole =
      subtables.length === 2 ** depths.initialDepth && subtables.every((one) => one > 0);
    invariant(isWhole, 'a directory is made that lacks a subtable');
    const made = yield* DirectoryParts.make(pool, catalog, depths, options);
    yield* made.fill(subtables.map((one) => ({ low: one | 0, high: Math.floor(one / 2 ** 32) })));
    return made.root;
  }
}

export function suffixOf(hash: number, depth: number): number {
  return hash & (2 ** depth - 1);
}

/** The local depth at which the subtable of entry `index` was made. */
export function bornAt(index: number, initialDepth: number): number {
  return Math.max(initialDepth, index === 0 ? 0 : 32 - Math.clz32(index));
}

function withoutHighestBit(index: number): number {
  return index & ~(1 << (31 - Math.clz32(index)));
}

/**
 * The next suffix of `depth` bits in the order of reversed bits; undefined after the last. Walks
 * use this order because the halves of a split are neighbours in it.
 */
export function nextSuffix(suffix: number, depth: number): number | undefined {
  // Adds one to the reversed number: carries from the highest bit downwards.
  let bit = depth - 1;
  let next = suffix;
  while (bit >= 0 && (next & (1 << bit)) !== 0) next &= ~(1 << bit--);
  return bit < 0 ? undefined : next | (1 << bit);
}
