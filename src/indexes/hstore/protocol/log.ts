import { invariant } from '../../../errors.ts';
import {
  type Address,
  Batch,
  type Operation,
  readInteger,
  Scratch,
  setWord,
} from '../../../verbs/index.ts';
import { LOG_ENTRY_BYTES, PAIR, type PairGeometry } from './geometry.ts';
import { isEmpty, type NamedSlot } from './slot.ts';

export const LOG_INSERT = 1;
export const LOG_UPDATE = 2;
export const LOG_DELETE = 3;

const EVENT_SHIFT = 24;
/** Entries that are read in one doorbell. */
const ENTRIES_PER_READ = 256;

/** A change of the table: the slot's new word, empty if the key was deleted. */
export interface LogEntry extends NamedSlot {
  event: number;
}

/**
 * An entry of a pair's log, 32 bytes. Each word has 32 bits of it and, above, of its sequence:
 *
 *    0 address of the slot, low half   8 its high half 24 | event 8
 *   16 the slot's word, low half      24 its high half
 *
 * The key is in the record that the slot's word names. A server that was overtaken may WRITE an
 * entry after the ring has come round. A reader recognises such an entry by the sequence in each
 * word, and then builds its skiplist again.
 */
export function encodeEntry(entry: LogEntry, sequence: number, words: Scratch, at: number): void {
  const { event, slot, low, high } = entry;
  invariant(isEntry(entry) && sequence > 0, 'a turn logs an invalid change');
  setWord(words, at, slot | 0, sequence);
  setWord(words, at + 8, Math.floor(slot / 2 ** 32) | (event << EVENT_SHIFT), sequence);
  setWord(words, at + 16, low, sequence);
  setWord(words, at + 24, high, sequence);
}

/** Whether it is a valid change of a slot. */
function isEntry({ event, slot, high }: LogEntry): boolean {
  const isKnown = event >= LOG_INSERT && event <= LOG_DELETE;
  return isKnown && slot > 0 && slot % 8 === 0 && isEmpty(high) === (event === LOG_DELETE);
}

/** Undefined if the words are not the entry of this sequence. */
function decodeEntry(words: Scratch, at: number, sequence: number): LogEntry | undefined {
  const { i32 } = words;
  const word = at >> 2;
  for (let i = 1; i < 8; i += 2) if (i32[word + i] !== (sequence | 0)) return undefined;
  const slotHigh = i32[word + 2] & (2 ** EVENT_SHIFT - 1);
  return {
    event: i32[word + 2] >>> EVENT_SHIFT,
    slot: slotHigh * 2 ** 32 + (i32[word] >>> 0),
    low: i32[word + 4],
    high: i32[word + 6],
  };
}

/** The net result of a slot's entries. */
export interface Folded extends NamedSlot {
  /** Whether the slot no longer has the key that it had before, if any. */
  rekeyed: boolean;
}

/** The log since a sequence, folded: each slot's last word, and whether its key changed. */
export class FoldedLog {
  readonly #geometry: PairGeometry;
  readonly #bySlot = new Map<Address, Folded>();
  readonly #words = new Scratch(8);
  /** The last sequence that was read. */
  #sequence: number;

  constructor(geometry: PairGeometry, from: number) {
    this.#geometry = geometry;
    this.#sequence = from;
  }

  get changes(): Folded[] {
    return [...this.#bySlot.values()];
  }

  /**
   * Reads on to a committed sequence while the log grows. False if newer entries have overwritten
   * some that it needs. A server writes at most one turn of entries ahead of `begun`. So the
   * entries are whole if `begun`, read after them, is ahead by at most the ring's length less a
   * turn.
   */
  *follow(target: number): Operation<boolean> {
    const kept = this.#geometry.entriesKept;
    const words = this.#words;
    while (this.#sequence < target) {
      const from = this.#sequence;
      const count = Math.min(ENTRIES_PER_READ, target - from);
      if (target - from > kept) return false;
      words.ensure(8 + count * LOG_ENTRY_BYTES);
      const batch = new Batch();
      for (let i = 0; i < count; i++) {
        const entry = this.#geometry.logEntry(from + 1 + i);
        batch.read(entry, LOG_ENTRY_BYTES, words, 8 + i * LOG_ENTRY_BYTES);
      }
      yield batch.read(this.#geometry.base + PAIR.begun, 8, words, 0);
      if (readInteger(words, 0) - from > kept) return false;
      for (let i = 0; i < count; i++) {
        const entry = decodeEntry(words, 8 + i * LOG_ENTRY_BYTES, from + 1 + i);
        if (entry === undefined) return false;
        this.#sequence++;
        this.#fold(entry);
      }
    }
    return true;
  }

  #fold(entry: LogEntry): void {
    const { event, slot, low, high } = entry;
    invariant(isEntry(entry), 'the log has an invalid entry');
    const rekeyed = event !== LOG_UPDATE || (this.#bySlot.get(slot)?.rekeyed ?? false);
    this.#bySlot.set(slot, { slot, low, high, rekeyed });
  }
}
