import { Batch, type Operation, readInteger, Scratch } from '../../verbs/index.ts';
import { LOG_ENTRY_BYTES, PAIR, type PairGeometry } from './geometry.ts';
import { turnMax } from './hash-server.ts';
import { decodeEntry, type LogEntry } from './log.ts';

/** Entries that are read in one doorbell. */
const ENTRIES_PER_READ = 256;

/** Entries of the log that no turn overwrites which is decided when they are read. */
export function entriesKept({ logEntries }: PairGeometry): number {
  return logEntries - turnMax(logEntries);
}

/** Reads a pair's log, which goes on meanwhile. */
export class LogReader {
  readonly #geometry: PairGeometry;

  constructor(geometry: PairGeometry) {
    this.#geometry = geometry;
  }

  *progress(): Operation<{ begun: number; committed: number }> {
    const words = new Scratch(16);
    yield new Batch().read(this.#geometry.base + PAIR.begun, 16, words, 0);
    return { begun: readInteger(words, 0), committed: readInteger(words, 8) };
  }

  /**
   * The entries after `from` up to `to`; undefined when newer ones have overwritten them.
   * A server writes entries of at most one turn ahead of `begun`, so what was read is whole unless
   * `begun`, read afterwards, is as far ahead as the ring is long, less a turn.
   */
  *read(from: number, to: number): Operation<LogEntry[] | undefined> {
    const kept = entriesKept(this.#geometry);
    if (to - from > kept) return undefined;
    const entries: LogEntry[] = [];
    // Of its own for every reading: interleaved operations share the reader.
    const words = new Scratch(Math.min(ENTRIES_PER_READ, Math.max(1, to - from)) * LOG_ENTRY_BYTES);
    for (let first = from; first < to; first += ENTRIES_PER_READ) {
      const count = Math.min(ENTRIES_PER_READ, to - first);
      yield this.#post(first + 1, count, words);
      for (let i = 0; i < count; i++) {
        const entry = decodeEntry(words, i * LOG_ENTRY_BYTES, first + 1 + i);
        if (entry === undefined) return undefined;
        entries.push(entry);
      }
      const { begun } = yield* this.progress();
      if (begun - from > kept) return undefined;
    }
    return entries;
  }

  #post(first: number, count: number, words: Scratch): Batch {
    const batch = new Batch();
    for (let i = 0; i < count; i++) {
      const entry = this.#geometry.logEntry(first + i);
      batch.read(entry, LOG_ENTRY_BYTES, words, i * LOG_ENTRY_BYTES);
    }
    return batch;
  }
}
