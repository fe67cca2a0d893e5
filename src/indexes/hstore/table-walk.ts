import { type Address, Batch, type Operation, Scratch } from '../../verbs/index.ts';
import { nextBucketIn } from './bucket-chains.ts';
import type { PairGeometry } from './geometry.ts';
import type { Pair } from './pair.ts';
import { BUCKET_BYTES, isEmpty, NEXT, SLOTS } from './slot.ts';

/** Buckets that are read together. */
export const STEP_BUCKETS = 64;

/** In the midst of long work a server has other duties. */
const BUCKETS_BETWEEN_DUTIES = 64 * STEP_BUCKETS;

/** A slot that names a record. */
export interface NamedSlot {
  slot: Address;
  low: number;
  high: number;
}

/** Reads the buckets of a table in their order, some at a time, each with its chain. */
export class TableReader {
  readonly #batch = new Batch();
  readonly #words = new Scratch((STEP_BUCKETS + 1) * BUCKET_BYTES);

  /**
   * Visits what up to STEP_BUCKETS buckets from `first` on name, when all of it has been read;
   * returns how many those were. Raises TableLost.
   */
  *step(
    geometry: PairGeometry,
    first: number,
    visit: (slot: NamedSlot) => void,
    visitChained: (bucket: Address) => void = () => {},
  ): Operation<number> {
    const count = Math.min(STEP_BUCKETS, geometry.buckets - first);
    const start = geometry.bucket(first);
    const { generation } = geometry;
    const met: NamedSlot[] = [];
    const chained: Address[] = [];
    const meet = (slot: NamedSlot) => met.push(slot);
    yield this.#batch.clear().read(start, count * BUCKET_BYTES, this.#words, 0);
    for (let i = 0; i < count; i++) {
      let at = i * BUCKET_BYTES;
      let next = visitBucket(this.#words, at, start + at, generation, meet);
      while (next !== 0) {
        chained.push(next);
        at = STEP_BUCKETS * BUCKET_BYTES;
        yield this.#batch.clear().read(next, BUCKET_BYTES, this.#words, at);
        next = visitBucket(this.#words, at, next, generation, meet);
      }
    }
    chained.forEach(visitChained);
    met.forEach(visit);
    return count;
  }
}

/** All slots of a pair's table that name a record, some at a time. Raises TableLost. */
export function* walkSlots(
  { geometry, meanwhile }: Pair,
  visit: (slots: readonly NamedSlot[]) => Operation<void>,
): Operation<void> {
  const reader = new TableReader();
  for (let first = 0; first < geometry.buckets; ) {
    const slots: NamedSlot[] = [];
    first += yield* reader.step(geometry, first, (slot) => slots.push(slot));
    if (slots.length > 0) yield* visit(slots);
    if (first % BUCKETS_BETWEEN_DUTIES === 0) yield* meanwhile();
  }
}

/** Visits the slots of a bucket that stands at `at`; returns the address of the next one. */
function visitBucket(
  { i32 }: Scratch,
  at: number,
  address: Address,
  generation: number,
  visit: (slot: NamedSlot) => void,
): Address {
  for (let slot = 0; slot < SLOTS; slot++) {
    const low = i32[(at >> 2) + 2 * slot];
    const high = i32[(at >> 2) + 2 * slot + 1];
    if (!isEmpty(high)) visit({ slot: address + 8 * slot, low, high });
  }
  return nextBucketIn(i32[(at + NEXT) >> 2], i32[((at + NEXT) >> 2) + 1], generation);
}
