import { StepwellError } from '../../../errors.ts';
import { type Index, isOrdered, type OrderedIndex } from '../../../indexes/contract.ts';
import type { Key } from '../../api.ts';
import type { ScanOptions } from '../../ordered-api.ts';
import { keyBytes, rangeOf } from './key-range.ts';
import type { Namespace } from './namespace.ts';
import { type Part, RangeScan } from './range-scan.ts';
import type { Taker } from './takers.ts';

/** A scan whose options have been checked and which has not begun. */
export interface ScanPlan<T> {
  readonly signal: AbortSignal | undefined;
  begin(index: OrderedIndex): RangeScan<T>;
  /** The bytes of a key to go on at. Raises SW_INVALID_KEY. */
  place(key: Key): Uint8Array;
}

/** Raises SW_INVALID_ARGUMENT and SW_INVALID_KEY. */
export function planScan<T>(
  options: ScanOptions,
  part: Part,
  taker: Taker<T>,
  namespace?: Namespace,
): ScanPlan<T> {
  const { range: asked, limit } = rangeOf(options);
  const range = namespace?.within(asked) ?? asked;
  return {
    signal: options.signal,
    place: (key) => keyBytes(namespace?.key(key) ?? key),
    begin: (index) => new RangeScan(index, range, limit, taker, part),
  };
}

/** Raises SW_UNSUPPORTED for an index whose keys have no order. */
export function orderedIndex(index: Index, store: string): OrderedIndex {
  if (isOrdered(index)) return index;
  const why = `store ${store} has the index ${index.manifest.name}, whose keys have no order`;
  throw new StepwellError(
    'SW_UNSUPPORTED',
    `${why}; create it with the index chime or hstore for ranges`,
  );
}

/**
 * Raises SW_ABORTED, and ends the scan, when its signal says so. By asking, not by listening: a
 * scan that is just forgotten leaves no listener behind.
 */
export function refuseAborted(signal: AbortSignal | undefined, end: () => void): void {
  if (signal === undefined || !signal.aborted) return;
  end();
  const cause: unknown = signal.reason;
  throw new StepwellError('SW_ABORTED', 'the scan was aborted by its signal', { cause });
}
