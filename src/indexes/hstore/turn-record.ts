import { sizeClassOf } from '../../records/layout.ts';
import {
  type Address,
  readInteger,
  type Scratch,
  setWord,
  UNIT_BYTES,
  writeInteger,
} from '../../verbs/index.ts';
import { decodeFullReply, encodeFullReply, type HashReply } from './messages.ts';

const HEAD_BYTES = 16;
const DECISION_BYTES = 80;

/** What a turn decides of one request. */
export interface Decision {
  row: number;
  number: number;
  reply: HashReply;
  /** The slot that this changes and its new word; event 0 for a refusal. */
  event: number;
  slot: Address;
  low: number;
  high: number;
  /** The header that the new record has from now on, of an update. */
  header: readonly number[];
}

/**
 * The record of a turn: all that it comes to, in memory of its own that nobody changes any more
 * once the pair's word names it. Whoever meets a turn that is not done can do it.
 *
 *    0 how many | 8 the sequence that was committed before
 *   16 … of each: row 16 | event 16 | 0 | number | slot 64 | its new word | reply 32 | header 16
 */
export interface TurnRecord {
  before: number;
  decisions: readonly Decision[];
  isDamaged?: boolean;
}

/** What a turn makes of a slot: several decisions, all writes of one key, may change it. */
export interface NetChange {
  /** The first of them, whose reply names what the slot had before. */
  first: number;
  /** The last, which says what it has then. What the others say never is in the table. */
  last: number;
}

export function netChangesOf(decisions: readonly Decision[]): NetChange[] {
  const bySlot = new Map<Address, NetChange>();
  decisions.forEach(({ event, slot }, i) => {
    if (event === 0) return;
    const known = bySlot.get(slot);
    if (known) known.last = i;
    else bySlot.set(slot, { first: i, last: i });
  });
  return [...bySlot.values()];
}

/** Lines of the block of a turn of so many decisions. */
export function unitsOfRecord(decisions: number): number {
  return sizeClassOf(Math.ceil((HEAD_BYTES + decisions * DECISION_BYTES) / UNIT_BYTES));
}

export function encodeTurn({ before, decisions }: TurnRecord, words: Scratch): void {
  writeInteger(words, 0, decisions.length);
  writeInteger(words, 8, before);
  decisions.forEach(({ row, number, reply, event, slot, low, high, header }, i) => {
    const start = HEAD_BYTES + i * DECISION_BYTES;
    setWord(words, start, row | (event << 16), 0);
    writeInteger(words, start + 8, number);
    writeInteger(words, start + 16, slot);
    setWord(words, start + 24, low, high);
    encodeFullReply(reply, words, start + 32);
    words.i32.set(header, (start + 64) >> 2);
  });
}

/**
 * Of a record that was read with its block, of so many bytes, for a mailbox of so many rows. One
 * that is damaged, or was overwritten because its turn is done, has no decisions.
 */
export function decodeTurn(words: Scratch, bytes: number, rows: number): TurnRecord {
  const { i32 } = words;
  const length = readInteger(words, 0);
  const damaged = { before: 0, decisions: [], isDamaged: true };
  if (HEAD_BYTES + length * DECISION_BYTES > bytes) return damaged;
  const decisions = Array.from({ length }, (_, i) => {
    const start = HEAD_BYTES + i * DECISION_BYTES;
    const word = start >> 2;
    return {
      row: i32[word] & 0xffff,
      event: i32[word] >>> 16,
      number: readInteger(words, start + 8),
      slot: readInteger(words, start + 16),
      low: i32[word + 6],
      high: i32[word + 7],
      reply: decodeFullReply(words, start + 32),
      header: [...i32.subarray(word + 16, word + 20)],
    };
  });
  if (decisions.some(({ row }) => row >= rows)) return damaged;
  return { before: readInteger(words, 8), decisions };
}
