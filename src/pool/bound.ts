import { invariant } from '../errors.ts';
import { type Address, type Operation, UNIT_BYTES } from '../verbs/index.ts';
import { control } from './control.ts';
import { STORE_WORDS_BYTES } from './layout.ts';
import type { Allocator } from './memory/allocator.ts';

/** The pool stores an index into this list. */
export const EVICTIONS = ['none', 'lru', 'lfu', 'adaptive'] as const;
type Eviction = (typeof EVICTIONS)[number];

/** How much a store may hold, and which records it evicts when it is full. */
export interface BoundSettings {
  readonly unit: 'records' | 'bytes';
  readonly limit: number;
  readonly eviction: Eviction;
}

/**
 * The bound of a store, and its block in the pool:
 *
 *   0                    a line for each row of the client table: see store/eviction/ledger.ts
 *   64 * clients         a line whose first word corrects their sum
 *   64 * (clients + 1)   adaptive: 2^historyBits words: see store/eviction/experts.ts
 */
export interface Bound extends BoundSettings {
  readonly block: Address;
  readonly historyBits: number;
}

export const LEDGER_LINE_BYTES = UNIT_BYTES;

const HISTORY_BITS_MIN = 6;
const HISTORY_BITS_MAX = 14;
/** Assumed size of a record in a store that counts bytes. */
const BYTES_PER_RECORD = 512;

/** Offsets in the store's line behind the catalog. */
const LIMIT = 24;
const BOUND = 32;
const BLOCK = 40;
const UNIT_SHIFT = 4;
const HISTORY_SHIFT = 8;
const FOUR_BITS = 15;

/** Allocates a bounded store's block, zeroed. Returns the words for the store's line. */
export function* makeBound(
  allocator: Allocator,
  clientsMax: number,
  catalog: number,
  settings: BoundSettings,
): Operation<Uint8Array> {
  const historyBits = settings.eviction === 'adaptive' ? historyBitsFor(settings) : 0;
  const units = unitsOf(clientsMax, historyBits);
  const block = yield* allocator.allocate(catalog, units);
  yield* control.writeBytes(block, new Uint8Array(units * UNIT_BYTES));
  return encodeBound({ ...settings, block, historyBits });
}

/** Sizes the history to the expected number of records, within limits. */
export function historyBitsFor({ unit, limit }: Pick<BoundSettings, 'unit' | 'limit'>): number {
  const records = unit === 'records' ? limit : limit / BYTES_PER_RECORD;
  const bits = Math.ceil(Math.log2(Math.max(1, records)));
  return Math.min(HISTORY_BITS_MAX, Math.max(HISTORY_BITS_MIN, bits));
}

function unitsOf(clientsMax: number, historyBits: number): number {
  const history = historyBits === 0 ? 0 : 8 * 2 ** historyBits;
  return (ledgerBytes(clientsMax) + history) / UNIT_BYTES;
}

/** Bytes of all lines, including the correction, which comes last. */
export function ledgerBytes(clientsMax: number): number {
  return (clientsMax + 1) * LEDGER_LINE_BYTES;
}

/** The word that corrects the sum of the lines. */
export function correctionOf(clientsMax: number, { block }: Bound): Address {
  return block + clientsMax * LEDGER_LINE_BYTES;
}

/** Where the history begins; undefined when the store has none. */
export function historyOf(clientsMax: number, bound: Bound): Address | undefined {
  return bound.historyBits === 0 ? undefined : bound.block + ledgerBytes(clientsMax);
}

/** Address of a bounded store's block, and its size. */
export function blockOfBound(
  clientsMax: number,
  { block, historyBits }: Bound,
): { address: Address; units: number } {
  return { address: block, units: unitsOf(clientsMax, historyBits) };
}

function encodeBound(bound: Bound): Uint8Array {
  const { limit, block } = bound;
  // A line of zeros means that the store has no bound.
  const isSane = limit >= 1 && Number.isSafeInteger(limit) && block > 0;
  invariant(isSane, 'a store gets a bound that cannot be read back');
  const words = new DataView(new ArrayBuffer(STORE_WORDS_BYTES));
  words.setBigUint64(LIMIT, BigInt(bound.limit), true);
  words.setBigUint64(BOUND, BigInt(kindOf(bound)), true);
  words.setBigUint64(BLOCK, BigInt(bound.block), true);
  return new Uint8Array(words.buffer);
}

function kindOf({ unit, eviction, historyBits }: Omit<Bound, 'limit' | 'block'>): number {
  const inBytes = unit === 'bytes' ? 1 << UNIT_SHIFT : 0;
  return EVICTIONS.indexOf(eviction) + inBytes + (historyBits << HISTORY_SHIFT);
}

/**
 * The bound in a store's line; undefined if the store has none. The caller must check that the
 * block belongs to the store. Raises SW_POOL_CORRUPT for a bound that no creator writes.
 */
export function decodeBound(line: Uint8Array): Bound | undefined {
  const words = new DataView(line.buffer, line.byteOffset, line.length);
  const [limit, kind, block] = [LIMIT, BOUND, BLOCK].map((at) =>
    Number(words.getBigUint64(at, true)),
  );
  if (limit === 0 && kind === 0 && block === 0) return undefined;
  const eviction = EVICTIONS[kind & FOUR_BITS];
  const historyBits = (kind >>> HISTORY_SHIFT) & FOUR_BITS;
  const unit = (kind & (1 << UNIT_SHIFT)) === 0 ? 'records' : 'bytes';
  const isWithin = historyBits >= HISTORY_BITS_MIN && historyBits <= HISTORY_BITS_MAX;
  const isSane =
    limit >= 1 &&
    Number.isSafeInteger(limit) &&
    eviction !== undefined &&
    kind === kindOf({ unit, eviction, historyBits }) &&
    (eviction === 'adaptive' ? isWithin : historyBits === 0);
  invariant(isSane, `a store has a damaged bound: limit ${limit}, kind ${kind}`);
  return { unit, limit, eviction, block, historyBits };
}
