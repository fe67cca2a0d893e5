import type { Address, Operation } from '../../../verbs/index.ts';
import type { Parts } from '../../traversal/parts.ts';
import { RangeOrder } from '../../traversal/range-order.ts';
import { TableLost } from '../protocol/pair-state.ts';
import { type NamedSlot, recordOf, unitsOfSlot } from '../protocol/slot.ts';
import { readBuckets, STEP_BUCKETS } from '../protocol/table-reader.ts';
import { eachWaiting, recordBlock } from '../reachable.ts';
import { restoreTable } from '../recovery/rebuild-table.ts';
import type { HStoreRequest, HStoreTable } from './table.ts';

/** Steps without a record that are one part. */
const EMPTY_STEPS = 64;

/**
 * The buckets of one pair after the other, some at a time, each with its chain. A key never leaves
 * its chain and never changes its slot. The `whole` index is that and what waits to be answered.
 */
export class HStoreParts implements Parts<HStoreRequest> {
  readonly order: RangeOrder;
  readonly #table: HStoreTable;
  readonly #request: HStoreRequest;
  readonly #isWhole: boolean;
  /** Blocks that requests which wait name, and those of the last turns. */
  #waiting: Address[] = [];
  slots: NamedSlot[] = [];
  chained: Address[] = [];
  /** How often it met a table that was lost. */
  restored = 0;

  /** Raises SW_INVALID_ARGUMENT for what is no cursor. */
  constructor(table: HStoreTable, cursor = 0, whole = false) {
    const { buckets } = table.shape;
    this.#table = table;
    this.#isWhole = whole;
    this.#request = table.newRequest();
    this.order = new RangeOrder(table.pairs.length * buckets, STEP_BUCKETS, cursor, buckets);
  }

  *read(): Operation<void> {
    const { buckets } = this.#table.shape;
    const { order } = this;
    this.slots = [];
    this.chained = [];
    order.next = order.position;
    this.#waiting = [];
    if (this.#isWhole && order.position === 0) yield* this.#readWaiting();
    for (let step = 0; step < EMPTY_STEPS && this.slots.length === 0; step++) {
      if (order.next === order.end) break;
      const first = order.next % buckets;
      const count = Math.min(STEP_BUCKETS, buckets - first);
      this.chained.push(...(yield* this.#readBuckets(first, count)));
      order.next += count;
    }
  }

  /** Before the tables: a request that is answered meanwhile has its record there then. */
  *#readWaiting(): Operation<void> {
    const note = (block: Address) => this.#waiting.push(block);
    for (const pair of this.#table.pairs) {
      const record = yield* recordBlock(pair);
      if (record) note(record.address);
      yield* eachWaiting(this.#table, pair, note);
    }
  }

  /** When the table is lost, as soon as there is another one: keys stand as before. */
  *#readBuckets(first: number, count: number): Operation<ReadonlySet<Address>> {
    const { pairs, shape } = this.#table;
    const pair = pairs[Math.floor(this.order.next / shape.buckets)];
    for (;;) {
      this.slots.length = 0;
      try {
        return yield* readBuckets(pair.geometry, first, count, this.#request, (slot, low, high) => {
          this.slots.push({ slot, low, high });
        });
      } catch (error) {
        if (!(error instanceof TableLost)) throw error;
        this.restored++;
        yield* restoreTable(pair, error.generation);
      }
    }
  }

  eachSlot(visit: (record: Address, units: number, isClaim: boolean) => void): void {
    for (const slot of this.slots) visit(recordOf(slot), unitsOfSlot(slot.high), false);
  }

  eachBlock(visit: (address: Address) => void): void {
    for (const block of this.#waiting) visit(block);
    for (const bucket of this.chained) visit(bucket);
  }
}
