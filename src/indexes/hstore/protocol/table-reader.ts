import { invariant } from '../../../errors.ts';
import { type Address, Frame, type Operation, type Scratch } from '../../../verbs/index.ts';
import { markOfTable, type PairGeometry, SEGMENT_BUCKETS } from './geometry.ts';
import type { PairAccess } from './pair-access.ts';
import { TableLost } from './pair-state.ts';
import { BUCKET_BYTES, isEmpty, markIn, type NamedSlot, nextIn, SLOTS } from './slot.ts';

/** Buckets to read at once in a walk that may stop after any of them. */
export const STEP_BUCKETS = 64;
/** Buckets to read at once in a walk over a whole table; divides a segment. */
const WIDE_STEP_BUCKETS = SEGMENT_BUCKETS / 16;

/** The address of the bucket behind this one, 0 at the end of its chain; raises TableLost. */
export function nextBucketIn(words: Scratch, at: number, generation: number): Address {
  if (markIn(words, at) !== markOfTable(generation)) throw new TableLost(generation);
  return nextIn(words, at);
}

type SlotVisitor = (slot: NamedSlot) => void;

/**
 * Reads `count` buckets of a table from `first` on, and their chains, and visits the slots that
 * name records. Returns the chained buckets. Raises TableLost, after some visits.
 */
export function* readBuckets(
  geometry: PairGeometry,
  first: number,
  count: number,
  { batch, words }: Frame,
  visit: SlotVisitor,
): Operation<ReadonlySet<Address>> {
  const { generation } = geometry;
  const chained = new Set<Address>();
  const buckets: Address[] = [];
  for (let i = 0; i < count; i++) buckets.push(geometry.bucket(first + i));
  words.ensure(count * BUCKET_BYTES);
  yield batch.clear().read(buckets[0], count * BUCKET_BYTES, words, 0);
  let open = visitSlots(buckets, words, generation, visit);
  while (open.length > 0) {
    batch.clear();
    for (let i = 0; i < open.length; i++) {
      invariant(!chained.has(open[i]), `the bucket at ${open[i]} is chained twice`);
      chained.add(open[i]);
      batch.read(open[i], BUCKET_BYTES, words, i * BUCKET_BYTES);
    }
    yield batch;
    open = visitSlots(open, words, generation, visit);
  }
  return chained;
}

/** Visits the slots of buckets that were read; returns the buckets behind them. */
function visitSlots(
  buckets: readonly Address[],
  words: Scratch,
  generation: number,
  visit: SlotVisitor,
): Address[] {
  const { i32 } = words;
  const behind: Address[] = [];
  for (let i = 0; i < buckets.length; i++) {
    const at = i * BUCKET_BYTES;
    const next = nextBucketIn(words, at, generation);
    if (next !== 0) behind.push(next);
    for (let slot = 0; slot < SLOTS; slot++) {
      const word = (at >> 2) + 2 * slot;
      const [low, high] = [i32[word], i32[word + 1]];
      if (!isEmpty(high)) visit({ slot: buckets[i] + 8 * slot, low, high });
    }
  }
  return behind;
}

/** All slots of a pair's table that name a record, many at a time. Raises TableLost. */
export function* walkSlots(
  pair: PairAccess,
  visit: (slots: readonly NamedSlot[]) => Operation<void>,
): Operation<void> {
  const { geometry } = pair;
  const { buckets } = geometry;
  const frame = new Frame(0);
  for (let first = 0; first < buckets; first += WIDE_STEP_BUCKETS) {
    const count = Math.min(WIDE_STEP_BUCKETS, buckets - first);
    const slots: NamedSlot[] = [];
    yield* readBuckets(geometry, first, count, frame, (slot) => slots.push(slot));
    if (slots.length > 0) yield* visit(slots);
    yield* pair.meanwhile();
  }
}
