import { invariant } from '../../../errors.ts';
import { control } from '../../../pool/control.ts';
import { sizeClassOf, unitsOf } from '../../../records/layout.ts';
import {
  type Batch,
  type Operation,
  readInteger,
  Scratch,
  writeInteger,
} from '../../../verbs/index.ts';
import type { IndexScan, KeyRange } from '../../contract.ts';
import { edge, type HalfOpenRange, halfOpen, narrowed } from '../../substrates/key-range.ts';
import { visitRecords } from '../../traversal/visit-records.ts';
import type { Pair } from '../pair.ts';
import { BODY_BYTES, REPLY_BYTES } from '../protocol/geometry.ts';
import { holderIn } from '../protocol/lease.ts';
import type { Unanswered } from '../protocol/mailbox.ts';
import { type KeyBytes, readKeys, textOfKey } from '../protocol/record-heads.ts';
import { answerOffset, encodeScan, type ScanPart } from '../protocol/scan-messages.ts';
import { recordOf, unitsOfSlot } from '../protocol/slot.ts';
import { AWAIT_MICROSECONDS, Waiting } from '../protocol/waiting.ts';
import { type Word, wordIn } from '../protocol/word.ts';
import type { OrderedSlot } from '../skiplist-server/skiplist-image.ts';
import { catchUp } from '../skiplist-server/skiplist-server.ts';
import {
  ANSWERED_AT,
  BODY_AT,
  type HStoreRequest,
  type HStoreTable,
  LEASE_AT,
  NUMBER_AT,
  REPLY_AT,
  SWAP_AT,
} from './table.ts';

/** Records that a step visits at most: read in one doorbell. */
export const STEP_RECORDS = 128;

/**
 * SCAN (section 4.2): the skiplist servers catch up with the log, their partitions are merged, and
 * the records are read from the pool together. Each step sees each pair as it was at one moment of
 * the step: all that a GET can have returned before the step, and nothing that a GET after it would
 * not see.
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
    const request = this.#request;
    const reverse = this.#reverse;
    const count = Math.min(STEP_RECORDS, this.#left);
    const part = { from: reverse ? this.#range.to : this.#range.from, reverse, count };
    const found: OrderedSlot[] = [];
    for (const pair of pairs) {
      found.push(...(yield* scanPair(this.#table, pair, request, part)));
    }
    if (pairs.length > 1) found.sort((a, b) => (a.key < b.key === reverse ? 1 : -1));
    const within = found.slice(0, count).filter(({ key }) => this.#isInRange(key));
    request.candidates.count = 0;
    for (const slot of within) request.noteRecord(recordOf(slot), unitsOfSlot(slot.high));
    const all = () => true;
    yield* visitRecords(records, request, all, visit, keysOnly);
    this.#pass(within, count);
  }

  /** Moves on after a step was visited; a step that failed is repeated. */
  #pass(within: readonly OrderedSlot[], count: number): void {
    this.#left -= within.length;
    this.done = this.#left <= 0 || within.length < count;
    if (within.length === 0) return;
    const last = Buffer.from(within[within.length - 1].key, 'latin1');
    const { from, to } = this.#range;
    this.#range = this.#reverse ? { from, to: last } : { from: edge(last, true), to };
  }

  /** Whether a key that lies behind the start of the step is in the range. */
  #isInRange(key: string): boolean {
    const { from, to } = this.#range;
    return this.#reverse ? key >= textOfKey(from) : to === undefined || key < textOfKey(to);
  }
}

/**
 * The next keys of a pair, from its skiplist server or, without one, from this client's own
 * skiplist. So a SCAN is served while the server is down, as GETs and PUTs are.
 */
function* scanPair(
  table: HStoreTable,
  pair: Pair,
  request: HStoreRequest,
  part: ScanPart,
): Operation<OrderedSlot[]> {
  const { scansAreServed, skiplistLease } = pair;
  const isKnown = scansAreServed && !skiplistLease.serves;
  if (isKnown || skiplistLease.isTaken(yield* skiplistLease.holder())) {
    const slots = yield* askForSlots(table, pair, request, part);
    if (slots) {
      const keys = yield* readKeys(slots);
      const textOf = ({ u8, bytes }: KeyBytes) => textOfKey(u8.subarray(0, bytes));
      return slots.map((slot, i) => ({ ...slot, key: textOf(keys[i]) }));
    }
  }
  yield* catchUp(pair);
  const { image } = pair.skiplist;
  return image.collect(part).map((node) => image.orderedSlot(node));
}

/**
 * Calls the skiplist server. Undefined if it is gone (then the request was withdrawn), or the pool
 * has no memory for an answer.
 */
export function* askForSlots(
  table: HStoreTable,
  pair: Pair,
  request: HStoreRequest,
  part: ScanPart,
): Operation<Word[] | undefined> {
  const { skiplistMailbox: mailbox } = pair;
  const { batch, words } = request;
  const keyBytes = part.from?.length ?? 0;
  const answerAt = answerOffset(keyBytes);
  const units = sizeClassOf(unitsOf(answerAt + 8 * part.count));
  const row = yield* mailbox.take(pair.patience.waitsMax);
  let isOpen = false;
  try {
    const block = yield* pair.allocate(units);
    if (block === undefined) return undefined;
    const asked = { row, number: mailbox.nextNumber(row) };
    isOpen = true;
    encodeScan(part, block, words, BODY_AT);
    writeInteger(words, NUMBER_AT, asked.number);
    batch.clear();
    if (part.from && keyBytes > 0) {
      const key = new Scratch(answerAt);
      key.u8.set(part.from);
      batch.write(block, answerAt, key, 0);
    }
    batch
      .write(mailbox.geometry.body(row), BODY_BYTES, words, BODY_AT)
      .write(mailbox.geometry.request(row), 8, words, NUMBER_AT);
    const answer = new Scratch(8 * part.count);
    const read = (looks: Batch) => looks.read(block + answerAt, 8 * part.count, answer, 0);
    const count = yield* waitForScan(table, pair, request, asked, read);
    isOpen = false;
    pair.scansAreServed = count !== undefined;
    pair.discard(block, units);
    if (count === undefined) return undefined;
    invariant(count <= part.count, `a scan of ${part.count} keys has found ${count}`);
    return Array.from({ length: count }, (_, i) => wordIn(answer, 8 * i));
  } finally {
    // Without an answer a server may still write one.
    if (isOpen) mailbox.giveUp(row);
    else mailbox.give(row);
  }
}

/**
 * Posts the batch and waits for the answer; `read` adds the READ of its slots. Returns how many
 * slots it has; undefined if the server is gone and the request was withdrawn.
 */
function* waitForScan(
  table: HStoreTable,
  pair: Pair,
  { batch, words }: HStoreRequest,
  asked: Unanswered,
  read: (looks: Batch) => Batch,
): Operation<number | undefined> {
  const { row, number } = asked;
  const { skiplistMailbox: mailbox, skiplistLease } = pair;
  const waiting = new Waiting(skiplistLease, pair.patience, 'a skiplist server');
  writeInteger(words, SWAP_AT, number - 1);
  batch.awaitChange(mailbox.geometry.answered(row), AWAIT_MICROSECONDS, words, SWAP_AT);
  for (;;) {
    table.retries.waits++;
    batch
      .read(mailbox.geometry.answered(row), 8, words, ANSWERED_AT)
      .read(mailbox.geometry.reply(row), REPLY_BYTES, words, REPLY_AT)
      .read(skiplistLease.address, 16, words, LEASE_AT);
    yield read(batch);
    if (readInteger(words, ANSWERED_AT) === number) return readInteger(words, REPLY_AT);
    // Its beat is the progress of a skiplist server.
    yield* waiting.poll(holderIn(words, LEASE_AT), readInteger(words, LEASE_AT + 8));
    if (waiting.isTime && (yield* withdraw(pair, asked))) return undefined;
    yield batch.clear().pause(waiting.pause, words);
    batch.clear();
  }
}

/**
 * Takes back a request that a dead server has not answered, as the holder of that server's lease.
 * Otherwise the next server would write an answer to a block that may have been reused.
 */
function* withdraw(
  { skiplistLease, skiplistMailbox }: Pair,
  { row, number }: Unanswered,
): Operation<boolean> {
  const holder = yield* skiplistLease.holder();
  if (holder.client === skiplistLease.own) return false;
  if (!(yield* skiplistLease.take(holder))) return false;
  const answered = skiplistMailbox.geometry.answered(row);
  const isAnswered = Number(yield* control.load(answered)) === number;
  if (!isAnswered) yield* control.store(answered, BigInt(number));
  yield* skiplistLease.release();
  return !isAnswered;
}
