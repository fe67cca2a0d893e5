import { BLOCK_CLAIMED, BLOCK_CURRENT } from '../../pool/allocator.ts';
import { HEADER_BYTES } from '../../records/layout.ts';
import {
  type Address,
  Batch,
  type Operation,
  Scratch,
  setWord,
  writeInteger,
} from '../../verbs/index.ts';
import { REPLACED } from '../contract.ts';
import { LOG_ENTRY_BYTES, PAIR, REPLY_BYTES } from './geometry.ts';
import { encodeEntry, type LogEntry } from './log.ts';
import { stateBytesOf } from './marks.ts';
import { encodeReply, type HashReply, headerOf, OP_WRITE } from './messages.ts';
import type { Pair } from './pair.ts';
import type { Posted } from './posted.ts';
import { isEmpty } from './slot.ts';

/** What a request came to, and the slot that this changes. */
export interface Answer {
  posted: Posted;
  reply: HashReply;
  change: { event: number; slot: Address; low: number; high: number } | undefined;
}

/** Bytes of one answer's part of a doorbell: entry, header, slot, reply, number. */
const HEADER_AT = LOG_ENTRY_BYTES;
const SLOT_AT = HEADER_AT + HEADER_BYTES;
const NUMBER_AT = SLOT_AT + 8;
const REPLY_AT = NUMBER_AT + 8;
const ANSWER_BYTES = REPLY_AT + REPLY_BYTES;

/** Words of the pair that a doorbell writes: begun, committed, the lease. */
const BEGUN_AT = 0;
const COMMITTED_AT = 8;
const LEASE_AT = 16;
/** The marks of records: current, and not any more. */
const CURRENT_AT = 24;
const FORMER_AT = 32;
const WORDS = 64;

/** A slot's new word, and in the reply its old one. */
interface Marked {
  low: number;
  high: number;
  reply: HashReply;
}

/** The doorbell that makes a turn's decisions real. */
export class Commit {
  readonly #pair: Pair;
  readonly #batch = new Batch();
  readonly #out = new Scratch(WORDS + ANSWER_BYTES);

  constructor(pair: Pair) {
    this.#pair = pair;
  }

  /**
   * One doorbell, in the order on which recovery relies. The versions of those that replace others
   * are known only now: their headers, which nobody has read yet, are written first.
   */
  *run(answers: readonly Answer[], committed: number, release: boolean): Operation<void> {
    const { geometry } = this.#pair;
    const marked = answers.flatMap(({ reply, change }) => (change ? [{ reply, ...change }] : []));
    const marks = yield* this.#marksOf(marked);
    const batch = this.#prepare(answers.length);
    const changes = answers.filter(({ change }) => change !== undefined);
    changes.forEach(({ reply }, i) => {
      reply.sequence = committed + 1 + i;
    });
    answers.forEach((answer, i) => {
      this.#postHeader(answer, i);
    });
    answers.forEach((answer, i) => {
      if (answer.change) this.#postEntry(entryOf(answer), i);
    });
    const begun = committed + changes.length;
    if (changes.length > 0) this.#postWord(PAIR.begun, BEGUN_AT, begun);
    this.#postMarks(marks);
    answers.forEach(({ change }, i) => {
      if (change) this.#postSlot(change.slot, change.low, change.high, i);
    });
    answers.forEach(({ posted, reply }, i) => {
      this.#postReply(posted.row, posted.number, reply, i);
    });
    if (changes.length > 0) this.#postWord(PAIR.committed, COMMITTED_AT, begun);
    if (release) batch.write(geometry.base + PAIR.hashLease, 8, this.#out, LEASE_AT);
    yield batch;
  }

  /**
   * What follows `begun` in the doorbell of a server that died in it. Marks are written before
   * slots: where a slot is changed the marks are, and the old record's block may have been freed.
   */
  *repeat(
    entries: readonly LogEntry[],
    begun: number,
    isMarked: (entry: LogEntry, i: number) => boolean,
  ): Operation<void> {
    const marks = yield* this.#marksOf(entries.filter((entry, i) => !isMarked(entry, i)));
    const batch = this.#prepare(entries.length);
    this.#postMarks(marks);
    entries.forEach(({ slot, low, high }, i) => {
      this.#postSlot(slot, low, high, i);
    });
    entries.forEach(({ row, number, reply }, i) => {
      this.#postReply(row, number, reply, i);
    });
    this.#postWord(PAIR.committed, COMMITTED_AT, begun);
    yield batch;
  }

  /** The state bytes of what becomes current by these changes, and of what is it no more. */
  *#marksOf(changes: readonly Marked[]): Operation<{ current: Address[]; former: Address[] }> {
    const { allocator } = this.#pair;
    const named = changes.filter(({ low, high }) => !isEmpty(low, high));
    const replaced = changes
      .map(({ reply: { oldLow, oldHigh } }) => ({ low: oldLow, high: oldHigh }))
      .filter(({ low, high }) => !isEmpty(low, high));
    const current = yield* stateBytesOf(allocator, named);
    return { current, former: yield* stateBytesOf(allocator, replaced) };
  }

  #postMarks({ current, former }: { current: Address[]; former: Address[] }): void {
    for (const at of former) this.#batch.write(at, 1, this.#out, FORMER_AT);
    for (const at of current) this.#batch.write(at, 1, this.#out, CURRENT_AT);
  }

  #prepare(answers: number): Batch {
    this.#out.ensure(WORDS + answers * ANSWER_BYTES);
    writeInteger(this.#out, LEASE_AT, 0);
    writeInteger(this.#out, CURRENT_AT, BLOCK_CURRENT);
    writeInteger(this.#out, FORMER_AT, BLOCK_CLAIMED);
    return this.#batch.clear();
  }

  #at(i: number): number {
    return WORDS + i * ANSWER_BYTES;
  }

  #postHeader({ posted: { request }, reply }: Answer, i: number): void {
    if (request.operation !== OP_WRITE || reply.outcome !== REPLACED) return;
    const at = this.#at(i) + HEADER_AT;
    this.#out.i32.set(headerOf(request, reply.version), at >> 2);
    this.#batch.write(request.block, HEADER_BYTES, this.#out, at);
  }

  #postEntry(entry: LogEntry, i: number): void {
    const at = this.#at(i);
    encodeEntry(entry, this.#out, at);
    const address = this.#pair.geometry.logEntry(entry.sequence);
    this.#batch.write(address, LOG_ENTRY_BYTES, this.#out, at);
  }

  #postSlot(slot: Address, low: number, high: number, i: number): void {
    const at = this.#at(i) + SLOT_AT;
    setWord(this.#out, at, low, high);
    this.#batch.write(slot, 8, this.#out, at);
  }

  #postReply(row: number, number: number, reply: HashReply, i: number): void {
    const { hashMailbox } = this.#pair.geometry;
    const at = this.#at(i);
    encodeReply(reply, this.#out, at + REPLY_AT);
    writeInteger(this.#out, at + NUMBER_AT, number);
    this.#batch
      .write(hashMailbox.reply(row), REPLY_BYTES, this.#out, at + REPLY_AT)
      .write(hashMailbox.answered(row), 8, this.#out, at + NUMBER_AT);
  }

  #postWord(word: Address, at: number, value: number): void {
    writeInteger(this.#out, at, value);
    this.#batch.write(this.#pair.geometry.base + word, 8, this.#out, at);
  }
}

function entryOf({ posted: { row, number }, reply, change }: Answer): LogEntry {
  const { event, slot, low, high } = change as NonNullable<Answer['change']>;
  return { sequence: reply.sequence, row, event, number, slot, low, high, reply };
}
