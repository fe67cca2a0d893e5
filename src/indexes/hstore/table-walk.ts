import { invariant } from '../../errors.ts';
import { type Address, Batch, type Operation, Scratch } from '../../verbs/index.ts';
import { nextBucketIn } from './bucket-chains.ts';
import { type PairGeometry, SEGMENT_BUCKETS } from './geometry.ts';
import type { Pair } from './pair.ts';
import { BUCKET_BYTES, isEmpty, NEXT, SLOTS } from './slot.ts';
import { type NamedSlot, SlotList } from './slot-list.ts';

/** Buckets that are read together when a walk may stop behind any of them. */
export const STEP_BUCKETS = 64;
/** The same when all of a table is read: a part of a segment. */
const WIDE_STEP_BUCKETS = SEGMENT_BUCKETS / 16;

/** Reads the buckets of a table in their order, some at a time, each with its chain. */
export class TableReader {
  readonly #batch = new Batch();
  readonly #buckets: number;
  readonly #words: Scratch;
  /** What the last step has met. */
  readonly slots: SlotList;
  readonly chained: Address[] = [];

  constructor(buckets = STEP_BUCKETS) {
    this.#buckets = buckets;
    this.#words = new Scratch(buckets * BUCKET_BYTES);
    this.slots = new SlotList(buckets * SLOTS);
  }

  /**
   * Reads so many buckets from `first` on, and the chains behind them; returns how many of the
   * table those were. Raises TableLost.
   */
  *read(geometry: PairGeometry, first: number): Operation<number> {
    const count = Math.min(this.#buckets, geometry.buckets - first);
    const start = geometry.bucket(first);
    const { generation } = geometry;
    this.slots.count = 0;
    this.chained.length = 0;
    yield this.#batch.clear().read(start, count * BUCKET_BYTES, this.#words, 0);
    const seen = new Set<Address>();
    let open = this.#meet(count, generation, (i) => start + i * BUCKET_BYTES);
    while (open.length > 0) {
      for (const bucket of open) {
        invariant(!seen.has(bucket), `the bucket at ${bucket} is chained twice`);
        seen.add(bucket);
        this.chained.push(bucket);
      }
      const behind: Address[] = [];
      for (let some = 0; some < open.length; some += this.#buckets) {
        const buckets = open.slice(some, some + this.#buckets);
        this.#batch.clear();
        buckets.forEach((bucket, i) => {
          this.#batch.read(bucket, BUCKET_BYTES, this.#words, i * BUCKET_BYTES);
        });
        yield this.#batch;
        behind.push(...this.#meet(buckets.length, generation, (i) => buckets[i]));
      }
      open = behind;
    }
    return count;
  }

  /** Visits what a step has met, when all of it has been read. */
  *step(
    geometry: PairGeometry,
    first: number,
    visit: (slot: NamedSlot) => void,
    visitChained: (bucket: Address) => void,
  ): Operation<number> {
    const count = yield* this.read(geometry, first);
    const { slots, chained } = this;
    chained.forEach(visitChained);
    for (let i = 0; i < slots.count; i++) visit(slots.at(i));
    return count;
  }

  /** Takes the slots of buckets that were read; returns the buckets behind them. */
  #meet(count: number, generation: number, addressOf: (i: number) => Address): Address[] {
    const { i32 } = this.#words;
    const behind: Address[] = [];
    for (let i = 0; i < count; i++) {
      const at = (i * BUCKET_BYTES) >> 2;
      const bucket = addressOf(i);
      for (let slot = 0; slot < SLOTS; slot++) {
        const high = i32[at + 2 * slot + 1];
        if (!isEmpty(high)) this.slots.push(bucket + 8 * slot, i32[at + 2 * slot], high);
      }
      const next = nextBucketIn(i32[at + (NEXT >> 2)], i32[at + (NEXT >> 2) + 1], generation);
      if (next !== 0) behind.push(next);
    }
    return behind;
  }
}

/** All slots of a pair's table that name a record, many at a time. Raises TableLost. */
export function* walkSlots(
  { geometry, meanwhile }: Pair,
  visit: (slots: SlotList) => Operation<void>,
): Operation<void> {
  const reader = new TableReader(Math.min(WIDE_STEP_BUCKETS, geometry.buckets));
  for (let first = 0; first < geometry.buckets; ) {
    first += yield* reader.read(geometry, first);
    if (reader.slots.count > 0) yield* visit(reader.slots);
    yield* meanwhile();
  }
}
