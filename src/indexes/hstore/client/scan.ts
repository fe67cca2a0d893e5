import type { Operation } from '../../../verbs/index.ts';
import type { IndexScan, KeyRange } from '../../contract.ts';
import { edge, type HalfOpenRange, halfOpen, narrowed } from '../../substrates/key-range.ts';
import { visitRecords } from '../../traversal/visit-records.ts';
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
  readonly #reverse: boolean;
  readonly #limit: number;
  readonly #whole: HalfOpenRange;
  /** What the next steps visit. */
  #range!: HalfOpenRange;
  #left = 0;
  done = false;

  constructor(table: HStoreTable, range: KeyRange) {
    this.#table = table;
    this.#request = table.newRequest();
    this.#reverse = range.reverse ?? false;
    this.#limit = range.limit ?? Number.POSITIVE_INFINITY;
    this.#whole = halfOpen(range);
    this.#begin(this.#whole);
  }

  #begin(range: HalfOpenRange): void {
    this.#range = range;
    this.#left = this.#limit;
    this.done = this.#left <= 0;
  }

  seek(key: Uint8Array): void {
    this.#begin(narrowed(this.#whole, key, this.#reverse));
  }

  *next(
    visit: (request: HStoreRequest, keyBytes: number) => void,
    keysOnly = false,
  ): Operation<void> {
    const { pairs, records } = this.#table;
    const reverse = this.#reverse;
    const count = Math.min(STEP_RECORDS, this.#left);
    const part = { from: reverse ? this.#range.to : this.#range.from, reverse, count };
    const found: OrderedSlot[] = [];
    for (const pair of pairs)
      found.push(...(yield* scanPair(this.#table, pair, this.#request, part)));
    if (pairs.length > 1) found.sort((a, b) => (a.key < b.key === reverse ? 1 : -1));
    const within = found.slice(0, count).filter(({ key }) => this.#isInRange(key));
    const request = this.#request;
    request.candidateCount = 0;
    for (const slot of within) request.noteRecord(recordOf(slot), unitsOfSlot(slot.high));
    const all = () => true;
    yield* visitRecords(records, request, all, visit, keysOnly);
    this.#pass(within, count);
  }

  /** Only of a step that was visited: one that failed is visited again. */
  #pass(within: readonly OrderedSlot[], count: number): void {
    this.#left -= within.length;
    this.done = this.#left <= 0 || within.length < count;
    if (within.length === 0) return;
    const last = Buffer.from(within[within.length - 1].key, 'latin1');
    const { from, to } = this.#range;
    this.#range = this.#reverse ? { from, to: last } : { from: edge(last, true), to };
  }

  /** Of a key that lies behind where the step began. */
  #isInRange(key: string): boolean {
    const { from, to } = this.#range;
    return this.#reverse ? key >= textOfKey(from) : to === undefined || key < textOfKey(to);
  }
}
