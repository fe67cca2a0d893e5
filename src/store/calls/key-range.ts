import type { KeyBound, KeyRange } from '../../indexes/contract.ts';
import type { Key } from '../api.ts';
import { checkFlag, checkOptions, invalid, shown } from '../arguments.ts';
import { keyBytes, prefixRange } from '../keys.ts';
import type { RangeBounds, RangeOptions, ScanOptions } from '../ordered-api.ts';

const OPTIONS: Readonly<Record<keyof ScanOptions, true>> = {
  prefix: true,
  gte: true,
  gt: true,
  lte: true,
  lt: true,
  reverse: true,
  limit: true,
  signal: true,
};

const OPTION_NAMES = Object.keys(OPTIONS);
const ENDS = ['gte', 'gt', 'lte', 'lt'] as const;
const BOUND_NAMES = ['prefix', ...ENDS];

/** The range that the options mean. Raises SW_INVALID_ARGUMENT and SW_INVALID_KEY. */
export function rangeOf(options: ScanOptions): { range: KeyRange; limit: number } {
  checkOptions(options, OPTION_NAMES);
  const { reverse = false, signal } = options;
  if (signal !== undefined && typeof signal?.aborted !== 'boolean') {
    throw invalid('signal is an AbortSignal');
  }
  checkFlag('reverse', reverse);
  const ends = options.prefix === undefined ? options : endsOf(options, options.prefix);
  const lower = boundOf(ends, 'gte', 'gt');
  const upper = boundOf(ends, 'lte', 'lt');
  return { range: { lower, upper, reverse }, limit: limitOf(options) };
}

/**
 * A copy of the bounds of a call that takes nothing else. A spread of `bounds` would leave out
 * bounds that its class has as getters. Raises SW_INVALID_ARGUMENT.
 */
export function boundsOnly(bounds: RangeBounds): RangeBounds {
  checkOptions(bounds, BOUND_NAMES);
  const { prefix, gte, gt, lte, lt } = bounds;
  return { prefix, gte, gt, lte, lt };
}

/** The range of the prefix, which goes without ends. */
function endsOf(options: RangeBounds, prefix: Key): RangeBounds {
  const end = ENDS.find((name) => options[name] !== undefined);
  if (end === undefined) return prefixRange(prefix);
  throw invalid(`give prefix or ${end}, not both: a prefix is a range of its own`);
}

function boundOf(
  options: RangeOptions,
  closed: 'gte' | 'lte',
  open: 'gt' | 'lt',
): KeyBound | undefined {
  const at = options[closed];
  const beyond = options[open];
  if (at !== undefined && beyond !== undefined)
    throw invalid(`give ${closed} or ${open}, not both`);
  if (at !== undefined) return { key: keyBytes(at), inclusive: true };
  return beyond === undefined ? undefined : { key: keyBytes(beyond), inclusive: false };
}

function limitOf({ limit = Number.POSITIVE_INFINITY }: RangeOptions): number {
  const fine = limit === Number.POSITIVE_INFINITY || (Number.isSafeInteger(limit) && limit >= 0);
  if (!fine) throw invalid(`limit is a whole number from 0 on, not ${shown(limit)}`);
  return limit;
}

/** The part of a range that is left when a scan of it goes on at `key`. */
export function rangeFrom(range: KeyRange, key: Uint8Array): KeyRange {
  const from = { key, inclusive: true };
  const { lower, upper, reverse } = range;
  if (reverse) return isWithin(upper, key, 1) ? { ...range, upper: from } : range;
  return isWithin(lower, key, -1) ? { ...range, lower: from } : range;
}

/** The part of a range that is left when a scan of it goes on behind `key`. */
export function rangeBehind(range: KeyRange, key: Uint8Array): KeyRange {
  const from = { key, inclusive: false };
  return range.reverse ? { ...range, upper: from } : { ...range, lower: from };
}

/** Whether no key can be in the range. */
export function isEmptyRange({ lower, upper }: KeyRange): boolean {
  if (lower === undefined || upper === undefined) return false;
  const order = Buffer.compare(lower.key, upper.key);
  return order > 0 || (order === 0 && !(lower.inclusive && upper.inclusive));
}

/** Whether the key is on the range's side of an end: below an upper one (1), above a lower (-1). */
function isWithin(bound: KeyBound | undefined, key: Uint8Array, side: 1 | -1): boolean {
  return bound === undefined || Buffer.compare(key, bound.key) * side < 0;
}
