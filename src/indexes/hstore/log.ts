import { type Address, type Scratch, setWord } from '../../verbs/index.ts';

export const LOG_INSERT = 1;
export const LOG_UPDATE = 2;
export const LOG_DELETE = 3;

const EVENT_SHIFT = 24;

/** A change of the table. */
export interface LogEntry {
  sequence: number;
  event: number;
  slot: Address;
  /** The slot as it is from now on; empty when the key was deleted. */
  low: number;
  high: number;
}

/**
 * An entry of a pair's log, 32 bytes, each word with 32 bits of it and those of its sequence above:
 *
 *    0 address of the slot, low half   8 its high half 24 | what happened 8
 *   16 the slot's word, low half      24 its high half
 *
 * The key is in the record that the slot's word names. (The paper's entries hold key, address and a
 * mark that the update was applied; here sequence numbers say what was applied.) A server that was
 * overtaken may write an entry when the ring has come round: whoever reads it sees that it is of
 * another sequence, and has to build anew what it follows the log for.
 */
export function encodeEntry(entry: LogEntry, words: Scratch, at: number): void {
  const { sequence, event, slot, low, high } = entry;
  setWord(words, at, slot | 0, sequence);
  setWord(words, at + 8, Math.floor(slot / 2 ** 32) | (event << EVENT_SHIFT), sequence);
  setWord(words, at + 16, low, sequence);
  setWord(words, at + 24, high, sequence);
}

/** Undefined when what is there is not the entry of this sequence. */
export function decodeEntry(words: Scratch, at: number, sequence: number): LogEntry | undefined {
  const { i32 } = words;
  const word = at >> 2;
  for (let i = 1; i < 8; i += 2) if (i32[word + i] !== (sequence | 0)) return undefined;
  const slotHigh = i32[word + 2] & (2 ** EVENT_SHIFT - 1);
  return {
    sequence,
    event: i32[word + 2] >>> EVENT_SHIFT,
    slot: slotHigh * 2 ** 32 + (i32[word] >>> 0),
    low: i32[word + 4],
    high: i32[word + 6],
  };
}
