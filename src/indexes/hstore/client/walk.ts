import { StepwellError } from '../../../errors.ts';
import type { Address, Operation } from '../../../verbs/index.ts';
import type { IndexWalk } from '../../contract.ts';
import { visitRecords } from '../../substrates/record-visits.ts';
import { TableLost } from '../protocol/pair-state.ts';
import { type NamedSlot, recordOf, unitsOfSlot } from '../protocol/slot.ts';
import { readBuckets, STEP_BUCKETS } from '../protocol/table-reader.ts';
import { restoreTable } from '../recovery/rebuild-table.ts';
import type { HStoreRequest, HStoreTable } from './table.ts';

/** Steps without a record that follow one another at once. */
const EMPTY_STEPS = 64;

/**
 * A walk over all records: the buckets of one pair after the other, each with its chain. A key
 * never leaves its chain and never changes its slot, so one that is present throughout is handed
 * out exactly once.
 */
export class HStoreWalk implements IndexWalk {
  readonly #table: HStoreTable;
  readonly #request: HStoreRequest;
  /** Buckets of all pairs, numbered through. */
  #position: number;
  readonly #end: number;
  /** How often it met a table that was lost. */
  restored = 0;

  constructor(table: HStoreTable, cursor = 0) {
    const { buckets } = table.shape;
    this.#table = table;
    this.#request = table.newRequest();
    this.#position = cursor;
    this.#end = table.pairs.length * buckets;
    const isCursor = Number.isSafeInteger(cursor) && cursor >= 0 && cursor < this.#end;
    if (isCursor && (cursor % buckets) % STEP_BUCKETS === 0) return;
    throw new StepwellError('SW_INVALID_ARGUMENT', `not a cursor of this store: ${cursor}`);
  }

  get done(): boolean {
    return this.#position >= this.#end;
  }

  get cursor(): number {
    return this.done ? 0 : this.#position;
  }

  *next(
    visit: (request: HStoreRequest, keyBytes: number) => void,
    keysOnly = false,
  ): Operation<void> {
    const slots = yield* this.nextSlots();
    const { records } = this.#table;
    const request = this.#request;
    request.candidateCount = 0;
    for (const slot of slots) request.noteRecord(recordOf(slot), unitsOfSlot(slot.high));
    const all = () => true;
    yield* visitRecords(records, request, all, visit, keysOnly);
  }

  /** As `next`, without reading the records: returns slots, visits the buckets behind the first. */
  *nextSlots(visitChained?: (bucket: Address) => void): Operation<readonly NamedSlot[]> {
    const { buckets } = this.#table.shape;
    const slots: NamedSlot[] = [];
    for (let empty = 0; empty < EMPTY_STEPS && !this.done && slots.length === 0; empty++) {
      const first = this.#position % buckets;
      const count = Math.min(STEP_BUCKETS, buckets - first);
      for (const bucket of yield* this.#read(first, count, slots)) visitChained?.(bucket);
      this.#position += count;
    }
    return slots;
  }

  /** When the table is lost, as soon as there is another one: keys stand as before. */
  *#read(first: number, count: number, slots: NamedSlot[]): Operation<ReadonlySet<Address>> {
    const { pairs, shape } = this.#table;
    const pair = pairs[Math.floor(this.#position / shape.buckets)];
    for (;;) {
      slots.length = 0;
      try {
        return yield* readBuckets(pair.geometry, first, count, this.#request, (slot, low, high) => {
          slots.push({ slot, low, high });
        });
      } catch (error) {
        if (!(error instanceof TableLost)) throw error;
        this.restored++;
        yield* restoreTable(pair, error.generation);
      }
    }
  }
}
