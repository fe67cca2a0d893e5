import { type Address, type Operation, UNIT_BYTES } from '../verbs/index.ts';
import { control } from './control.ts';
import { type PoolLayout, STORE_WORDS_BYTES } from './layout.ts';
import type { Allocator } from './memory/allocator.ts';

/** In the order of their numbers in the pool. */
export const EVICTIONS = ['none', 'lru', 'lfu', 'adaptive'] as const;
type Eviction = (typeof EVICTIONS)[number];

/** What a store may hold at most, and which records go when it is full. */
export interface BoundWish {
  readonly unit: 'records' | 'bytes';
  readonly limit: number;
  readonly eviction: Eviction;
}

/**
 * The bound of a store, and its block in the pool:
 *
 *   0                  a line for each row of the client table: see store/eviction/ledger.ts
 *   64 * clients       adaptive: 2^historyBits words: see store/eviction/history.ts
 */
export interface Bound extends BoundWish {
  readonly block: Address;
  readonly historyBits: number;
}

export const LEDGER_LINE_BYTES = UNIT_BYTES;

const HISTORY_BITS_MIN = 6;
const HISTORY_BITS_MAX = 14;
/** Of a store that counts bytes: as if its records had so many. */
const BYTES_PER_RECORD = 512;

/** In the store's line behind the catalog. */
const LIMIT = 24;
const BOUND = 32;
const BLOCK = 40;
const UNIT_SHIFT = 4;
const HISTORY_SHIFT = 8;
const FOUR_BITS = 15;

/** Reserves the block of a bounded store, empty; its bound as it stands behind the catalog. */
export function* makeBound(
  allocator: Allocator,
  layout: PoolLayout,
  catalog: number,
  wish: BoundWish,
): Operation<Uint8Array> {
  const historyBits = wish.eviction === 'adaptive' ? historyBitsFor(wish) : 0;
  const units = unitsOf(layout, historyBits);
  const block = yield* allocator.allocate(catalog, units);
  yield* control.writeBytes(block, new Uint8Array(units * UNIT_BYTES));
  return encodeBound({ ...wish, block, historyBits });
}

/** A history as long as there are records, within limits. */
function historyBitsFor({ unit, limit }: BoundWish): number {
  const records = unit === 'records' ? limit : limit / BYTES_PER_RECORD;
  const bits = Math.ceil(Math.log2(Math.max(1, records)));
  return Math.min(HISTORY_BITS_MAX, Math.max(HISTORY_BITS_MIN, bits));
}

function unitsOf({ parameters }: PoolLayout, historyBits: number): number {
  const history = historyBits === 0 ? 0 : 8 * 2 ** historyBits;
  return (parameters.clientsMax * LEDGER_LINE_BYTES + history) / UNIT_BYTES;
}

/** Where the history begins; undefined when the store has none. */
export function historyOf({ parameters }: PoolLayout, bound: Bound): Address | undefined {
  if (bound.historyBits === 0) return undefined;
  return bound.block + parameters.clientsMax * LEDGER_LINE_BYTES;
}

/** Where the block of a bounded store stands, and how many lines it has. */
export function blockOfBound(layout: PoolLayout, { block, historyBits }: Bound) {
  return { address: block, units: unitsOf(layout, historyBits) };
}

function encodeBound({ unit, limit, eviction, block, historyBits }: Bound): Uint8Array {
  const words = new DataView(new ArrayBuffer(STORE_WORDS_BYTES));
  const kind = EVICTIONS.indexOf(eviction) + (unit === 'bytes' ? 1 << UNIT_SHIFT : 0);
  words.setBigUint64(LIMIT, BigInt(limit), true);
  words.setBigUint64(BOUND, BigInt(kind + (historyBits << HISTORY_SHIFT)), true);
  words.setBigUint64(BLOCK, BigInt(block), true);
  return new Uint8Array(words.buffer);
}

/** The bound that a store's line says; undefined when it has none, or one that cannot be. */
export function decodeBound(line: Uint8Array): Bound | undefined {
  const words = new DataView(line.buffer, line.byteOffset, line.length);
  const limit = Number(words.getBigUint64(LIMIT, true));
  const kind = Number(words.getBigUint64(BOUND, true));
  const block = Number(words.getBigUint64(BLOCK, true));
  const eviction = EVICTIONS[kind & FOUR_BITS];
  const historyBits = (kind >>> HISTORY_SHIFT) & FOUR_BITS;
  if (limit === 0 || block === 0 || eviction === undefined) return undefined;
  const unit = (kind & (1 << UNIT_SHIFT)) === 0 ? 'records' : 'bytes';
  return { unit, limit, eviction, block, historyBits };
}
