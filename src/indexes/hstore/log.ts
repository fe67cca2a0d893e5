import { type Address, readInteger, type Scratch, writeInteger } from '../../verbs/index.ts';
import { decodeReply, encodeReply, type HashReply } from './messages.ts';

export const LOG_INSERT = 1;
export const LOG_UPDATE = 2;
export const LOG_DELETE = 3;

/**
 * An entry of a pair's log, 64 bytes:
 *
 *    0  sequence 64
 *    8  row of the request 16 | what happened 16 | 0
 *   16  number of the request 64
 *   24  address of the slot 64
 *   32  the first 24 bytes of the reply
 *   56  the slot as it is from now on 64 (0 when the key was deleted)
 *
 * It is all that is needed to do the update again, whoever does it: the slot, its new word, and the
 * answer. The key is in the record that the word names. (The paper's entries hold key, address and
 * a mark that the update was applied; here sequence numbers say what was applied.)
 */
export interface LogEntry {
  sequence: number;
  row: number;
  event: number;
  number: number;
  slot: Address;
  low: number;
  high: number;
  reply: HashReply;
}

export function encodeEntry(entry: LogEntry, words: Scratch, at: number): void {
  const { i32 } = words;
  const word = at >> 2;
  encodeReply(entry.reply, words, at + 32);
  writeInteger(words, at, entry.sequence);
  i32[word + 2] = entry.row | (entry.event << 16);
  i32[word + 3] = 0;
  writeInteger(words, at + 16, entry.number);
  writeInteger(words, at + 24, entry.slot);
  i32[word + 14] = entry.low;
  i32[word + 15] = entry.high;
}

export function decodeEntry(words: Scratch, at: number): LogEntry {
  const { i32 } = words;
  const word = at >> 2;
  return {
    sequence: readInteger(words, at),
    row: i32[word + 2] & 0xffff,
    event: i32[word + 2] >>> 16,
    number: readInteger(words, at + 16),
    slot: readInteger(words, at + 24),
    low: i32[word + 14],
    high: i32[word + 15],
    reply: decodeReply(words, at + 32),
  };
}
