import { invariant } from '../../errors.ts';
import { type Address, Batch, type Operation, readInteger, Scratch } from '../../verbs/index.ts';
import { BucketChains } from './bucket-chains.ts';
import { type Answer, Commit } from './commit.ts';
import { decide } from './decide.ts';
import { BODY_BYTES, LOG_ENTRY_BYTES, PAIR } from './geometry.ts';
import { KeyMatch } from './key-match.ts';
import { decodeEntry, type LogEntry } from './log.ts';
import { decodeRequest } from './messages.ts';
import type { Pair } from './pair.ts';
import type { Posted } from './posted.ts';
import { BUCKET_BYTES, isValid, NEXT } from './slot.ts';
import { loadSegments, sayLost, TableLost, tableStateIn } from './table-state.ts';

/** Requests that are answered together: one batch of the log. */
const BATCH_MAX = 64;

const BEGUN = 0;
const COMMITTED = 8;
const TABLE = 16;
const ROWS_USED = 24;
const HEADER = 64;

/** What a turn has answered, and whether it has given the lease back. */
export interface Turn {
  answers: readonly Answer[];
  released: boolean;
  /** The table has to be built anew before anything can be answered. */
  isLost: boolean;
}

const NOTHING: Turn = { answers: [], released: false, isLost: false };

/** The most requests that one turn of a server answers; the log keeps at least two turns. */
export function turnMax(logEntries: number): number {
  return Math.min(BATCH_MAX, logEntries / 2);
}

/**
 * The hash server of a pair: a state machine without a state of its own. All that it knows lies in
 * the pool, so whoever holds the lease can be it, from one turn to the next, and a holder that dies
 * between any two words leaves what the next one needs.
 *
 * A turn (section 4.2) takes what has been posted, reads the buckets and keys that this concerns,
 * decides, and does all in one doorbell: log, `begun`, slots, replies, `committed`. One queue pair
 * keeps WRITEs in order, so at any moment a prefix of it has happened:
 *
 * - before `begun`: nothing has; the requests still wait, the next server answers them;
 * - after `begun`: all of it will; the next server repeats the entries up to `begun` first.
 */
export class HashServer {
  readonly #pair: Pair;
  readonly #chains: BucketChains;
  readonly #keys = new KeyMatch();
  readonly #commit: Commit;
  readonly #words: Scratch;
  readonly #bodies = new Scratch(BATCH_MAX * BODY_BYTES);
  readonly #turnMax: number;

  constructor(pair: Pair) {
    this.#pair = pair;
    this.#chains = new BucketChains(pair);
    this.#commit = new Commit(pair);
    this.#words = new Scratch(HEADER + 16 * pair.geometry.hashMailbox.rows);
    this.#turnMax = turnMax(pair.geometry.logEntries);
  }

  /**
   * Answers what waits, under the lease; `release` gives the lease back in the same doorbell when
   * nothing is left. When nothing waited there is no answer, and the lease is kept.
   *
   * From that doorbell on another operation of this client may be in a turn of its own, before this
   * one goes on: what is known of a turn is therefore the turn's, and not the server's.
   */
  *turn(release: boolean): Operation<Turn> {
    const { committed, isLost } = yield* this.#look();
    if (isLost) return { ...NOTHING, isLost };
    const { posted, hasMore } = yield* this.#take();
    if (posted.length === 0) return NOTHING;
    try {
      yield* this.#chains.read(posted, (batch) => this.#keys.postKeys(posted, batch));
    } catch (error) {
      if (!(error instanceof TableLost)) throw error;
      const { geometry } = this.#pair;
      yield* sayLost(geometry, geometry.generation);
      return { ...NOTHING, isLost: true };
    }
    yield* this.#keys.readCandidates(posted);
    const answers: Answer[] = [];
    for (const one of posted) {
      const match = this.#keys.find(one);
      const version = match ? this.#keys.versionOf(match) : 0;
      answers.push(yield* decide(this.#chains, one, match, version));
    }
    const released = release && !hasMore;
    yield* this.#commit.run(answers, committed, released);
    for (const { posted: one, reply } of answers) {
      this.#pair.replies.answer(one.row, one.number, reply);
    }
    return { answers, released, isLost: false };
  }

  /** Completes what a server before has begun; only under the lease. */
  *recover(): Operation<void> {
    yield* this.#look();
  }

  /**
   * Reads how far the log is, which table there is, and what is posted; completes what a dead
   * server had begun.
   */
  *#look(): Operation<{ committed: number; isLost: boolean }> {
    const { geometry } = this.#pair;
    const { hashMailbox: mailbox } = geometry;
    let rows = this.#pair.rowsUsed;
    for (;;) {
      yield new Batch()
        .read(geometry.base + PAIR.begun, 24, this.#words, BEGUN)
        .read(mailbox.rowsUsed, 8, this.#words, ROWS_USED)
        .read(mailbox.request(0), 8 * rows, this.#words, HEADER)
        .read(mailbox.answered(0), 8 * rows, this.#words, HEADER + 8 * mailbox.rows);
      const used = readInteger(this.#words, ROWS_USED);
      if (used <= rows) break;
      rows = used;
      this.#pair.rowsUsed = used;
    }
    const begun = readInteger(this.#words, BEGUN);
    const committed = readInteger(this.#words, COMMITTED);
    const { isLost, generation } = tableStateIn(this.#words, TABLE);
    if (generation !== geometry.generation) yield* loadSegments(geometry);
    if (begun === committed) return { committed, isLost };
    yield* this.#repeat(committed, begun);
    return yield* this.#look();
  }

  /**
   * Does again what was begun and maybe not done. Nobody has changed these slots since: that takes
   * the lease, and whoever has the lease does this first. No slot occurs twice in a turn, so no
   * reader sees it go back.
   */
  *#repeat(from: number, begun: number): Operation<void> {
    const count = begun - from;
    const mailboxRows = this.#pair.geometry.hashMailbox.rows;
    invariant(count > 0 && count <= this.#turnMax, 'more was begun than one turn does');
    const words = new Scratch(count * LOG_ENTRY_BYTES);
    const batch = new Batch();
    for (let i = 0; i < count; i++) {
      const entry = this.#pair.geometry.logEntry(from + 1 + i);
      batch.read(entry, LOG_ENTRY_BYTES, words, i * LOG_ENTRY_BYTES);
    }
    yield batch;
    const entries: LogEntry[] = [];
    for (let i = 0; i < count; i++) {
      const entry = decodeEntry(words, i * LOG_ENTRY_BYTES);
      invariant(entry.sequence === from + 1 + i, 'an entry of the log is not where it belongs');
      entries.push(entry);
    }
    this.#pair.repeated += count;
    const buckets = yield* readBuckets(entries.map(({ slot }) => slot));
    yield* this.#commit.repeat(entries, begun, (entry, i) => {
      const { slot, low, high, row, number } = entry;
      const { i32 } = buckets[i];
      if (!isValid(i32[NEXT >> 2])) {
        // The table is lost and tells nothing. Where the answer is, the marks are, too.
        return readInteger(this.#words, HEADER + 8 * (mailboxRows + row)) === number;
      }
      const at = (slot % BUCKET_BYTES) >> 2;
      return i32[at] === low && i32[at + 1] === high;
    });
  }

  /** The requests of this turn: of those whose keys share a bucket only the first. */
  *#take(): Operation<{ posted: Posted[]; hasMore: boolean }> {
    const { hashMailbox: mailbox } = this.#pair.geometry;
    const waiting: { row: number; number: number }[] = [];
    for (let row = 0; row < this.#pair.rowsUsed; row++) {
      const number = readInteger(this.#words, HEADER + 8 * row);
      const answered = readInteger(this.#words, HEADER + 8 * (mailbox.rows + row));
      if (number !== answered) waiting.push({ row, number });
    }
    const chosen = waiting.slice(0, this.#turnMax);
    const posted: Posted[] = [];
    if (chosen.length === 0) return { posted, hasMore: false };
    const batch = new Batch();
    chosen.forEach(({ row }, i) => {
      batch.read(mailbox.body(row), BODY_BYTES, this.#bodies, i * BODY_BYTES);
    });
    yield batch;
    const buckets = new Set<number>();
    chosen.forEach(({ row, number }, i) => {
      const request = decodeRequest(this.#bodies, i * BODY_BYTES);
      const bucket = this.#chains.bucketOf(request);
      if (buckets.has(bucket)) return;
      posted.push({ row, number, request, chain: [], candidates: [], keyAt: 0 });
      buckets.add(bucket);
    });
    return { posted, hasMore: posted.length < waiting.length };
  }
}

/** The buckets that the slots are in. */
function* readBuckets(slots: readonly Address[]): Operation<Scratch[]> {
  const batch = new Batch();
  const images = slots.map((slot) => {
    const image = new Scratch(BUCKET_BYTES);
    batch.read(slot - (slot % BUCKET_BYTES), BUCKET_BYTES, image, 0);
    return image;
  });
  yield batch;
  return images;
}
