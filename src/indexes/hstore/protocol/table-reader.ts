import { invariant } from '../../../errors.ts';
import { type Address, Batch, type Operation, Scratch } from '../../../verbs/index.ts';
import { type PairGeometry, SEGMENT_BUCKETS } from './geometry.ts';
import type { PairAccess } from './pair-access.ts';
import { TableLost } from './pair-state.ts';
import { BUCKET_BYTES, isEmpty, isValid, type NamedSlot, NEXT, nextOf, SLOTS } from './slot.ts';

/** Buckets that are read together when a walk may stop behind any of them. */
export const STEP_BUCKETS = 64;
/** The same when all of a table is read: a part of a segment. */
const WIDE_STEP_BUCKETS = SEGMENT_BUCKETS / 16;

/** The address of the bucket behind this one, 0 at the end of its chain; raises TableLost. */
export function nextBucketIn({ i32 }: Scratch, at: number, generation: number): Address {
  const word = (at + NEXT) >> 2;
  if (!isValid(i32[word])) throw new TableLost(generation);
  return nextOf(i32[word], i32[word + 1]);
}

/** Buckets of a table that were read together with their chains. */
export interface TableStep {
  /** How many of the table, without those that are chained. */
  readonly count: number;
  readonly slots: readonly NamedSlot[];
  readonly chained: readonly Address[];
}

/** Reads up to `most` buckets of a table from `first` on with their chains. Raises TableLost. */
export function* readBuckets(
  geometry: PairGeometry,
  first: number,
  most = STEP_BUCKETS,
): Operation<TableStep> {
  const { generation, shape } = geometry;
  const count = Math.min(most, shape.buckets - first);
  const words = new Scratch(count * BUCKET_BYTES);
  const slots: NamedSlot[] = [];
  const chained = new Set<Address>();
  const buckets = Array.from({ length: count }, (_, i) => geometry.bucket(first + i));
  yield new Batch().read(buckets[0], count * BUCKET_BYTES, words, 0);
  let open = take(buckets, words, generation, slots);
  while (open.length > 0) {
    const batch = new Batch();
    open.forEach((bucket, i) => {
      invariant(!chained.has(bucket), `the bucket at ${bucket} is chained twice`);
      chained.add(bucket);
      batch.read(bucket, BUCKET_BYTES, words, i * BUCKET_BYTES);
    });
    yield batch;
    open = take(open, words, generation, slots);
  }
  return { count, slots, chained: [...chained] };
}

/** Takes the slots of buckets that were read; returns the buckets behind them. */
function take(
  buckets: readonly Address[],
  words: Scratch,
  generation: number,
  slots: NamedSlot[],
): Address[] {
  const { i32 } = words;
  const behind: Address[] = [];
  buckets.forEach((bucket, i) => {
    const at = i * BUCKET_BYTES;
    for (let slot = 0; slot < SLOTS; slot++) {
      const word = (at >> 2) + 2 * slot;
      const [low, high] = [i32[word], i32[word + 1]];
      if (!isEmpty(high)) slots.push({ slot: bucket + 8 * slot, low, high });
    }
    const next = nextBucketIn(words, at, generation);
    if (next !== 0) behind.push(next);
  });
  return behind;
}

/** All slots of a pair's table that name a record, many at a time. Raises TableLost. */
export function* walkSlots(
  { geometry, meanwhile }: PairAccess,
  visit: (slots: readonly NamedSlot[]) => Operation<void>,
): Operation<void> {
  for (let first = 0; first < geometry.shape.buckets; ) {
    const { count, slots } = yield* readBuckets(geometry, first, WIDE_STEP_BUCKETS);
    first += count;
    if (slots.length > 0) yield* visit(slots);
    yield* meanwhile();
  }
}
