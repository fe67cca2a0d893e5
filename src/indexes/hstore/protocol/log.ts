import { type Address, Batch, type Operation, Scratch, setWord } from '../../../verbs/index.ts';
import { LOG_ENTRY_BYTES, type PairGeometry } from './geometry.ts';
import type { PairAccess } from './pair-access.ts';
import { readState } from './pair-state.ts';

export const LOG_INSERT = 1;
export const LOG_UPDATE = 2;
export const LOG_DELETE = 3;

const EVENT_SHIFT = 24;
/** Entries that are read in one doorbell. */
const ENTRIES_PER_READ = 256;

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
 *    0 address of the slot, low half   8 its high half 24 | event 8
 *   16 the slot's word, low half      24 its high half
 *
 * The key is in the record that the slot's word names. A server that was overtaken may WRITE an
 * entry after the ring has come round. The sequence in each word tells such an entry from the one
 * that a reader expects; the reader then builds its skiplist anew.
 */
export function encodeEntry(entry: LogEntry, words: Scratch, at: number): void {
  const { sequence, event, slot, low, high } = entry;
  setWord(words, at, slot | 0, sequence);
  setWord(words, at + 8, Math.floor(slot / 2 ** 32) | (event << EVENT_SHIFT), sequence);
  setWord(words, at + 16, low, sequence);
  setWord(words, at + 24, high, sequence);
}

/** Undefined when what is there is not the entry of this sequence. */
function decodeEntry(words: Scratch, at: number, sequence: number): LogEntry | undefined {
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

/**
 * The entries after `from` up to `to` of a log that goes on meanwhile; undefined when newer ones
 * have overwritten them. A server writes entries of at most one turn ahead of `begun`, so what was
 * read is whole unless `begun`, read afterwards, is as far ahead as the ring is long, less a turn.
 */
export function* readLog(
  pair: PairAccess,
  from: number,
  to: number,
): Operation<LogEntry[] | undefined> {
  const { geometry } = pair;
  const kept = geometry.entriesKept;
  if (to - from > kept) return undefined;
  const entries: LogEntry[] = [];
  const words = new Scratch(Math.min(ENTRIES_PER_READ, Math.max(1, to - from)) * LOG_ENTRY_BYTES);
  for (let first = from; first < to; first += ENTRIES_PER_READ) {
    const count = Math.min(ENTRIES_PER_READ, to - first);
    yield postEntries(geometry, first + 1, count, words);
    for (let i = 0; i < count; i++) {
      const entry = decodeEntry(words, i * LOG_ENTRY_BYTES, first + 1 + i);
      if (entry === undefined) return undefined;
      entries.push(entry);
    }
    const { begun } = yield* readState(pair);
    if (begun - from > kept) return undefined;
  }
  return entries;
}

function postEntries(geometry: PairGeometry, first: number, count: number, words: Scratch): Batch {
  const batch = new Batch();
  for (let i = 0; i < count; i++) {
    batch.read(geometry.logEntry(first + i), LOG_ENTRY_BYTES, words, i * LOG_ENTRY_BYTES);
  }
  return batch;
}
