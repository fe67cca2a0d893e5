import { invariant } from '../../../errors.ts';
import { HEADER_BYTES, sizeClassOf } from '../../../records/layout.ts';
import {
  type Address,
  NULL_ADDRESS,
  readInteger,
  type Scratch,
  setWord,
  UNIT_BYTES,
  writeInteger,
} from '../../../verbs/index.ts';

import { decodeReply, encodeReply, HashReply } from './hash-messages.ts';
import { LOG_DELETE } from './log.ts';
import type { Reused } from './reused.ts';
import { isEmpty, SLOTS, vacated } from './slot.ts';
import type { Word } from './word.ts';

const POINTER_HIGH_BITS = 10;
const UNITS_BITS = 8;
const COUNT_SHIFT = POINTER_HIGH_BITS + UNITS_BITS;
const LOW_VALUES = 2 ** 32;

/**
 * A turn is what one CAS of the pair's word `turn` decides: the answers to some requests. The word
 * names its record in the pool. Records are freed through epochs, so a word that a client has read
 * does not come back while that client may use it in a CAS.
 *
 *   count 14 | lines of the record's block 8 | address of the record in lines 42
 */
export function turnAfter(before: Word, record: Address, units: number): Word {
  const line = record / UNIT_BYTES;
  // A turn with the record of the one before would count as empty: see `isEmptyTurn`.
  invariant(record !== blockOfTurn(before).address, 'a turn takes the record of the one before');
  invariant(record > 0 && units < 2 ** UNITS_BITS, 'a turn has an invalid record block');
  const count = countOfTurn(before) + 1;
  const high =
    Math.floor(line / LOW_VALUES) | (units << POINTER_HIGH_BITS) | (count << COUNT_SHIFT);
  return { low: line | 0, high };
}

/** The block of a turn's record. */
export interface RecordBlock {
  address: Address;
  units: number;
}

/** The number of turns up to this one, modulo 2^14. */
export function countOfTurn({ high }: Word): number {
  return high >>> COUNT_SHIFT;
}

/** An empty turn: it only makes the CAS of a server that expects the turn before fail. */
export function emptyTurnAfter({ low, high }: Word): Word {
  return { low, high: (high + (1 << COUNT_SHIFT)) | 0 };
}

/** Whether the turn after `before` is empty: only then both have the same record. */
export function isEmptyTurn(before: Word, turn: Word): boolean {
  return blockOfTurn(before).address === blockOfTurn(turn).address;
}

/** The address is 0 before the first turn. */
export function blockOfTurn({ low, high }: Word): RecordBlock {
  const line = (high & (2 ** POINTER_HIGH_BITS - 1)) * LOW_VALUES + (low >>> 0);
  const units = (high >>> POINTER_HIGH_BITS) & (2 ** UNITS_BITS - 1);
  return { address: line * UNIT_BYTES, units };
}

const HEAD_BYTES = 16;
const DECISION_BYTES = 80;

/** The event of a decision that empties slots of a bucket; the log has an entry for each one. */
export const CLEARED = 4;

/**
 * A turn's decision on one request: a change, with event 0 for none, and the reply. A turn with the
 * event CLEARED has only this decision, and `slot` is its bucket.
 */
export class Decision {
  row = 0;
  number = 0;
  event = 0;
  slot: Address = NULL_ADDRESS;
  low = 0;
  high = 0;
  readonly reply: HashReply = new HashReply();
  /** The header that the new record of an update gets. */
  readonly header: Int32Array = new Int32Array(HEADER_BYTES / 4);
  /** The words of the slots that CLEARED empties, 0 for the others. */
  readonly cleared: Int32Array = new Int32Array(2 * SLOTS);
}

export function isClearing(decisions: readonly Decision[]): boolean {
  return decisions.length === 1 && decisions[0].event === CLEARED;
}

/**
 * The record of a turn. Once the pair's word names it, it does not change. Every server that meets
 * a turn that is decided but not done carries it out from this record.
 *
 *    0 number of decisions | 8 the sequence that was committed before
 *   16 … of each: row 16 | event 16 | 0 | number | slot 64 | its new word | reply 32 | header 16
 *
 * With CLEARED, the words of the slots as they were are in the places of the new word and the
 * header, and in the 32 bytes behind.
 */
export interface TurnRecord {
  before: number;
  decisions: readonly Decision[];
  isDamaged?: boolean;
}

/**
 * The change of a slot from its word before the turn to its new one. If several writes of one key
 * change it, only the first and the last of these decisions matter.
 */
export class NetChange {
  first = 0;
  last = 0;
  event = 0;
  slot: Address = NULL_ADDRESS;
  readonly old = { low: 0, high: 0 };
  low = 0;
  high = 0;
}

export function noteNetChanges({ before, decisions }: TurnRecord, all: Reused<NetChange>): void {
  all.length = 0;
  if (isClearing(decisions)) {
    noteCleared(decisions[0], before, all);
    return;
  }
  for (let i = 0; i < decisions.length; i++) {
    const { event, slot, low, high, reply } = decisions[i];
    if (event === 0) continue;
    let known = 0;
    while (known < all.length && all.at(known).slot !== slot) known++;
    if (known === all.length) note(all.add(), i, slot, reply.oldLow, reply.oldHigh);
    const change = all.at(known);
    change.last = i;
    change.event = event;
    change.low = low;
    change.high = high;
  }
}

function noteCleared({ slot, cleared }: Decision, before: number, all: Reused<NetChange>): void {
  for (let i = 0; i < SLOTS; i++) {
    if (isEmpty(cleared[2 * i + 1])) continue;
    const { low, high } = vacated(before + all.length + 1);
    const change = all.add();
    note(change, 0, slot + 8 * i, cleared[2 * i], cleared[2 * i + 1]);
    change.last = 0;
    change.event = LOG_DELETE;
    change.low = low;
    change.high = high;
  }
}

function note(change: NetChange, first: number, slot: Address, low: number, high: number): void {
  change.first = first;
  change.slot = slot;
  change.old.low = low;
  change.old.high = high;
}

/** Lines of the block of a turn with this many decisions. */
export function unitsOfRecord(decisions: number): number {
  return sizeClassOf(Math.ceil((HEAD_BYTES + decisions * DECISION_BYTES) / UNIT_BYTES));
}

/**
 * Lines of the block of a chained bucket, which needs half of them. It is the block size of turns,
 * for which every store that was written to has a chunk. So even if records fill all other chunks,
 * a new key can get a chained bucket.
 */
export const CHAINED_BUCKET_UNITS: number = unitsOfRecord(1);

/** Offset of a decision in the record. */
export function decisionAt(decision: number): number {
  return HEAD_BYTES + decision * DECISION_BYTES;
}

/** Offsets in a decision of the words that are copied to the pool as they are. */
export const IN_DECISION = { number: 8, word: 24, reply: 32, header: 64 } as const;

/** Offset in a decision of the word of a slot that CLEARED empties. */
function clearedAt(slot: number): number {
  return slot === 0 ? IN_DECISION.word : IN_DECISION.header + 8 * (slot - 1);
}

export function encodeTurn({ before, decisions }: TurnRecord, words: Scratch): void {
  writeInteger(words, 0, decisions.length);
  writeInteger(words, 8, before);
  for (let i = 0; i < decisions.length; i++) {
    const { row, number, reply, event, slot, low, high, header } = decisions[i];
    const start = decisionAt(i);
    setWord(words, start, row | (event << 16), 0);
    writeInteger(words, start + IN_DECISION.number, number);
    writeInteger(words, start + 16, slot);
    setWord(words, start + IN_DECISION.word, low, high);
    encodeReply(reply, number, words, start + IN_DECISION.reply);
    words.i32.set(header, (start + IN_DECISION.header) >> 2);
  }
  if (!isClearing(decisions)) return;
  const { cleared } = decisions[0];
  for (let i = 0; i < SLOTS; i++) {
    setWord(words, decisionAt(0) + clearedAt(i), cleared[2 * i], cleared[2 * i + 1]);
  }
}

/**
 * Decodes the record in a block of `bytes` bytes, for a mailbox of `rows` rows. A record that is
 * damaged, or was overwritten because its turn is done, has no decisions.
 */
export function decodeTurn(words: Scratch, bytes: number, rows: number): TurnRecord {
  const { i32 } = words;
  const length = readInteger(words, 0);
  const before = readInteger(words, 8);
  const damaged = { before, decisions: [], isDamaged: true };
  if (HEAD_BYTES + length * DECISION_BYTES > bytes) return damaged;
  const decisions = Array.from({ length }, (_, i) => {
    const start = decisionAt(i);
    const word = start >> 2;
    return {
      row: i32[word] & 0xffff,
      event: i32[word] >>> 16,
      number: readInteger(words, start + IN_DECISION.number),
      slot: readInteger(words, start + 16),
      low: i32[word + 6],
      high: i32[word + 7],
      reply: decodeReply(words, start + IN_DECISION.reply, before),
      header: i32.slice(word + 16, word + 20),
      cleared: new Int32Array(2 * SLOTS),
    };
  });
  if (decisions.some(({ row }) => row >= rows)) return damaged;
  if (isClearing(decisions)) {
    for (let i = 0; i < SLOTS; i++) {
      const word = (decisionAt(0) + clearedAt(i)) >> 2;
      decisions[0].cleared.set(i32.subarray(word, word + 2), 2 * i);
    }
  }
  return { before, decisions };
}
