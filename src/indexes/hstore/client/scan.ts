import type { Operation } from '../../../verbs/index.ts';
import type { IndexScan, KeyBound, KeyRange } from '../../contract.ts';
import { type SlotRecord, visitRecords } from '../../substrates/record-visits.ts';
import { textOfKey } from '../protocol/record-heads.ts';
import { recordOf, unitsOfSlot } from '../protocol/slot.ts';
import type { OrderedSlot } from '../skiplist-server/skiplist-image.ts';
import { scanPair } from './scan-call.ts';
import type { HStoreRequest, HStoreTable } from './table.ts';

/** Records that a step visits at most: read in one doorbell. */
export const STEP_RECORDS = 128;

/**
 * SCAN (section 4.2): the skiplist servers catch up with the log, their partitions are merged, and
 * the records are read from the pool together. Each step sees each pair as it was at one moment of
 * the step: everything that a GET can have returned before, nothing that a GET would not yet see.
 */
export class HStoreScan implements IndexScan {
  readonly #table: HStoreTable;
  readonly #request: HStoreRequest;
  readonly #range: KeyRange;
  readonly #reverse: boolean;
  /** Where the next step begins. */
  #from: KeyBound | undefined;
  #left: number;
  done = false;

  constructor(table: HStoreTable, range: KeyRange) {
    this.#table = table;
    this.#request = table.newRequest();
    this.#range = range;
    this.#reverse = range.reverse ?? false;
    this.#left = 0;
    this.#begin(this.#start);
  }

  get #start(): KeyBound | undefined {
    return this.#reverse ? this.#range.upper : this.#range.lower;
  }

  get #end(): KeyBound | undefined {
    return this.#reverse ? this.#range.lower : this.#range.upper;
  }

  #begin(from: KeyBound | undefined): void {
    this.#from = from;
    this.#left = this.#range.limit ?? Number.POSITIVE_INFINITY;
    this.done = this.#left <= 0;
  }

  seek(key: Uint8Array): void {
    const start = this.#start;
    const order = start ? Buffer.compare(key, start.key) * (this.#reverse ? -1 : 1) : 1;
    this.#begin(order > 0 ? { key: key.slice(), inclusive: true } : start);
  }

  *next(
    visit: (request: HStoreRequest, keyBytes: number) => void,
    keysOnly = false,
  ): Operation<void> {
    const { pairs, records, shape } = this.#table;
    const count = Math.min(STEP_RECORDS, this.#left);
    const part = { from: this.#from, reverse: this.#reverse, count };
    const found: OrderedSlot[] = [];
    for (const pair of pairs)
      found.push(...(yield* scanPair(this.#table, pair, this.#request, part)));
    if (pairs.length > 1) found.sort((a, b) => (a.key < b.key === this.#reverse ? 1 : -1));
    const within = found.slice(0, count).filter(({ key }) => this.#isInRange(key));
    const slots: SlotRecord[] = within.map((slot) => {
      return { address: recordOf(slot), units: unitsOfSlot(slot.high) };
    });
    const all = () => true;
    yield* visitRecords(records, this.#request, slots, shape.seed, all, visit, keysOnly);
    this.#pass(within, count);
  }

  /** Only of a step that was visited: one that failed is visited again. */
  #pass(within: readonly OrderedSlot[], count: number): void {
    this.#left -= within.length;
    this.done = this.#left <= 0 || within.length < count;
    const last = within[within.length - 1];
    if (last) this.#from = { key: Buffer.from(last.key, 'latin1'), inclusive: false };
  }

  #isInRange(key: string): boolean {
    const end = this.#end;
    if (end === undefined) return true;
    const bound = textOfKey(end.key);
    if (key === bound) return end.inclusive;
    return this.#reverse ? key > bound : key < bound;
  }
}
