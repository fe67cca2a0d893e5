import { StepwellError } from '../../errors.ts';
import type { Address, Operation } from '../../verbs/index.ts';
import type { IndexWalk } from '../contract.ts';
import { visitRecords } from '../substrates/record-visits.ts';
import { restoreTable } from './rebuild.ts';
import { recordOf, unitsOfSlot } from './slot.ts';
import type { NamedSlot } from './slot-list.ts';
import type { HStoreRequest, HStoreTable } from './table.ts';
import { TableLost } from './table-state.ts';
import { STEP_BUCKETS, TableReader } from './table-walk.ts';

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
  readonly #perPair: number;
  /** Buckets of all pairs, numbered through. */
  #position: number;
  readonly #reader = new TableReader();
  /** How often it met a table that was lost. */
  restored = 0;

  constructor(table: HStoreTable, cursor = 0) {
    this.#table = table;
    this.#request = table.newRequest();
    this.#perPair = table.shape.buckets;
    this.#position = cursor;
    const end = this.#end;
    const isCursor = Number.isSafeInteger(cursor) && cursor >= 0 && cursor < end;
    if (isCursor && (cursor % this.#perPair) % STEP_BUCKETS === 0) return;
    throw new StepwellError('SW_INVALID_ARGUMENT', `not a cursor of this store: ${cursor}`);
  }

  get #end(): number {
    return this.#table.pairs.length * this.#perPair;
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
    const slots: { address: Address; units: number }[] = [];
    yield* this.nextSlots(({ low, high }) => {
      slots.push({ address: recordOf(low, high), units: unitsOfSlot(high) });
    });
    const { records, shape } = this.#table;
    const all = () => true;
    yield* visitRecords(records, this.#request, slots, shape.seed, all, visit, keysOnly);
  }

  /** As `next`, without reading the records: visits slots, and the buckets behind the first. */
  *nextSlots(
    visit: (slot: NamedSlot) => void,
    visitChained: (bucket: Address) => void = () => {},
  ): Operation<void> {
    let met = false;
    const visitMet = (slot: NamedSlot) => {
      met = true;
      visit(slot);
    };
    for (let step = 0; step < EMPTY_STEPS && !met && !this.done; step++) {
      this.#position += yield* this.#step(visitMet, visitChained);
    }
  }

  /** One step; when the table is lost, as soon as there is another one: keys stand as before. */
  *#step(
    visit: (slot: NamedSlot) => void,
    visitChained: (bucket: Address) => void,
  ): Operation<number> {
    const pair = this.#table.pairs[Math.floor(this.#position / this.#perPair)];
    const first = this.#position % this.#perPair;
    for (;;) {
      try {
        return yield* this.#reader.step(pair.geometry, first, visit, visitChained);
      } catch (error) {
        if (!(error instanceof TableLost)) throw error;
        this.restored++;
        yield* restoreTable(pair, error.generation);
      }
    }
  }
}
