import { invariant } from '../../errors.ts';
import { type Bound, correctionOf, LEDGER_LINE_BYTES, ledgerBytes } from '../../pool/bound.ts';
import { unsweptAt } from '../../pool/catalog.ts';
import type { Pool } from '../../pool/pool.ts';
import {
  Batch,
  CAS_BYTES,
  type Operation,
  readDouble,
  Scratch,
  setWord,
  swapped,
  UNIT_BYTES,
} from '../../verbs/index.ts';

/** Words of a line, each a double. */
const RECORDS = 0;
const BYTES = 1;
const EVICTED = 2;
const HITS = 3;
const MISSES = 4;
const LRU_REGRET = 5;
const LFU_REGRET = 6;
const WORDS = 8;
/** Bytes of the count of dead clients, which is read into the words after the lines. */
const DEATHS_BYTES = 8;

/** Greatest valid value of a line's word; the pool may be damaged. */
const VALUE_MAX = 2 ** 53;
/** Greatest value of each half of the correction word. */
const HALF_MAX = 2 ** 31 - 1;

/** A client reads the other clients' lines after at most this many changes of its own. */
const CHANGES_MAX = 64;
/** The same for adaptive eviction: with many clients, learning of regrets late costs hits. */
const CHANGES_MAX_ADAPTIVE = 16;
/** A client adds at most limit / PARTS before it reads the others' lines or evicts. */
const PARTS = 128;

/** Sums over all clients since the store was created. */
export interface LedgerSums {
  readonly records: number;
  readonly bytes: number;
  readonly evicted: number;
  readonly hits: number;
  readonly misses: number;
}

/** The corrected sums of all lines, and both halves of the correction word. */
export interface Reading {
  readonly records: number;
  readonly bytes: number;
  readonly evicted: number;
  readonly low: number;
  readonly high: number;
}

/**
 * How much a bounded store holds, by client. Each row of the client table has a line, which only
 * the row's client writes, without waiting. The sum over all lines is what the store holds; a line
 * may be negative, because a client also removes what others have written. The next client of a row
 * continues its line.
 *
 * A client knows its own line. It reads the others' after 64 changes, or when it has added half of
 * its share of the room that was left, or a 128th of the limit. In a full store each insertion
 * evicts as much as it adds. So each client but one can exceed the limit by a 128th of it (at least
 * one record) and its operations in flight; the next client that reads the lines evicts the excess.
 * A client that dies leaves its line wrong by its operations in flight; recount.ts corrects that.
 *
 * Every verb is posted between the `enter` and the `exit` of an attachment. Outside, the store may
 * have been dropped and its block re-used, or the row may belong to another client.
 */
export class Ledger {
  readonly bound: Bound;
  readonly #pool: Pool;
  readonly #own = new Float64Array(WORDS);
  /** The line as this client last published it. */
  readonly #published = new Float64Array(WORDS);
  readonly #catalog: number;
  /** Whether this client has ever changed what the store holds. */
  hasChanged = false;
  /** Clients that died with the store open and whose blocks no sweep has freed, when last read. */
  deaths = 0;
  /** Whether the sums were below 0 when the lines were last read. */
  isNegative = false;
  /** Sums of the others' lines, with the correction. */
  readonly #others = new Float64Array(WORDS);
  readonly #lines: Scratch;
  /** Corrections too large for the correction word, as after damage. Each client finds its own. */
  readonly #damage = { records: 0, bytes: 0 };
  #changesLeft = 0;
  /** How much this client may add before it reads the others' lines, in the bound's unit. */
  #amountLeft = 0;

  constructor(pool: Pool, bound: Bound, catalog: number) {
    this.bound = bound;
    this.#catalog = catalog;
    this.#pool = pool;
    this.#lines = new Scratch(ledgerBytes(pool.membership.clientsMax) + DEATHS_BYTES);
  }

  /** A client's ledger of a store that it has opened. */
  static *open(pool: Pool, bound: Bound, catalog: number): Operation<Ledger> {
    const ledger = new Ledger(pool, bound, catalog);
    yield* ledger.#read();
    for (let word = 0; word < WORDS; word++) {
      ledger.#own[word] = ledger.#lineWord(pool.membership.id, word);
    }
    ledger.#published.set(ledger.#own);
    yield* ledger.refresh();
    return ledger;
  }

  get sums(): LedgerSums {
    const sum = (word: number) => Math.max(0, this.#sum(word));
    return {
      records: sum(RECORDS),
      bytes: sum(BYTES),
      evicted: sum(EVICTED),
      hits: sum(HITS),
      misses: sum(MISSES),
    };
  }

  /** All clients' regrets about each eviction policy; see experts.ts. */
  get regrets(): { lru: number; lfu: number } {
    return { lru: this.#sum(LRU_REGRET), lfu: this.#sum(LFU_REGRET) };
  }

  /** How many records all clients have evicted since the store was created. */
  get evicted(): number {
    return this.#sum(EVICTED);
  }

  /** How many records came, ever, less those that were deleted. */
  get added(): number {
    return this.#sum(RECORDS) + this.#sum(EVICTED);
  }

  /** By how much the store exceeds its limit, in the bound's unit; negative while it has room. */
  get excess(): number {
    return this.#sum(this.#word) - this.bound.limit;
  }

  /** By how much each client may let the store exceed its limit for a while. */
  get slack(): number {
    return Math.floor(this.bound.limit / PARTS);
  }

  /** About what one record adds, in the bound's unit. */
  get perRecord(): number {
    return this.bound.unit === 'records' ? 1 : this.perRecordBytes;
  }

  /** Bytes of a record of the store, on average. */
  get perRecordBytes(): number {
    return Math.max(UNIT_BYTES, this.#sum(BYTES) / Math.max(1, this.#sum(RECORDS)));
  }

  get #word(): number {
    return this.bound.unit === 'records' ? RECORDS : BYTES;
  }

  #sum(word: number): number {
    return this.#own[word] + this.#others[word];
  }

  /** Counts what an operation of this client has added, or removed if negative. */
  changed(records: number, bytes: number): void {
    this.hasChanged = true;
    this.#own[RECORDS] += records;
    this.#own[BYTES] += bytes;
    this.#changesLeft--;
    // A removal gives no allowance back: another client may have used the room already.
    this.#amountLeft -= Math.max(0, this.bound.unit === 'records' ? records : bytes);
  }

  /** Counts a record that this client has evicted because the store was over its limit. */
  evictedOne(bytes: number): void {
    this.#own[RECORDS]--;
    this.#own[BYTES] -= bytes;
    this.#changesLeft--;
    this.#amountLeft += this.bound.unit === 'records' ? 1 : bytes;
  }

  countEviction(): void {
    this.#own[EVICTED]++;
  }

  countHit(): void {
    this.#own[HITS]++;
  }

  countMiss(): void {
    this.#own[MISSES]++;
  }

  regret(lru: number, lfu: number): void {
    this.#own[LRU_REGRET] += lru;
    this.#own[LFU_REGRET] += lfu;
  }

  /** Whether this client has changed so much that it should read the others' lines. */
  get isStale(): boolean {
    return this.#changesLeft <= 0 || (this.#amountLeft < 0 && this.excess <= 0);
  }

  /** Whether this client's line has changed since it was published. */
  get isUnpublished(): boolean {
    for (let word = 0; word < WORDS; word++) {
      if (this.#own[word] !== this.#published[word]) return true;
    }
    return false;
  }

  /** Reads the others' lines, and how many clients have died. One round trip. */
  *refresh(): Operation<Reading> {
    // Reset before the READ, so that only one of several operations in flight reads them.
    const { eviction } = this.bound;
    this.#changesLeft = eviction === 'adaptive' ? CHANGES_MAX_ADAPTIVE : CHANGES_MAX;
    yield* this.#read();
    const { id, clientsMax } = this.#pool.membership;
    this.#others.fill(0);
    let clients = 1;
    for (let row = 1; row <= clientsMax; row++) {
      if (row !== id && this.#addLine(row)) clients++;
    }
    const correction = (clientsMax * LEDGER_LINE_BYTES) >> 2;
    const [low, high] = this.#lines.i32.subarray(correction, correction + 2);
    this.#others[RECORDS] += low + this.#damage.records;
    this.#others[BYTES] += UNIT_BYTES * high + this.#damage.bytes;
    this.isNegative = Math.min(this.#sum(RECORDS), this.#sum(BYTES)) < 0;
    const share = Math.floor(-this.excess / (2 * clients));
    const most = Math.max(1, this.slack);
    this.#amountLeft = Math.max(0, Math.min(share, most));
    const [records, bytes] = [this.#sum(RECORDS), this.#sum(BYTES)];
    return { records, bytes, evicted: this.#sum(EVICTED), low, high };
  }

  *#read(): Operation<void> {
    const bytes = ledgerBytes(this.#pool.membership.clientsMax);
    const batch = new Batch().read(this.bound.block, bytes, this.#lines, 0);
    yield batch.read(unsweptAt(this.#catalog), DEATHS_BYTES, this.#lines, bytes);
    this.deaths = Number(this.#lines.i64[bytes / DEATHS_BYTES]);
  }

  /** Adds another client's line; false when the line is all zeros. */
  #addLine(row: number): boolean {
    let isEmpty = true;
    for (let word = 0; word < WORDS; word++) {
      const value = this.#lineWord(row, word);
      if (value !== 0) isEmpty = false;
      this.#others[word] += value;
    }
    return !isEmpty;
  }

  /** A value that no client can have written counts as 0. */
  #lineWord(row: number, word: number): number {
    const value = readDouble(this.#lines, 8 * ((row - 1) * WORDS + word));
    return Math.abs(value) <= VALUE_MAX ? value : 0;
  }

  /** Writes this client's line if it has changed, without waiting for the WRITE. */
  *publish(): Operation<void> {
    const { id, clientsMax } = this.#pool.membership;
    if (id === 0 || !this.isUnpublished) return;
    invariant(id <= clientsMax, 'a client writes behind the last line of a store');
    this.#published.set(this.#own);
    const line = this.bound.block + (id - 1) * LEDGER_LINE_BYTES;
    yield* this.#pool.unwaited.doubles(line, this.#own, WORDS);
  }

  /** Adds to the correction word, unless another client has changed it since the reading. */
  *correct({ low, high }: Reading, records: number, bytes: number): Operation<boolean> {
    const to = [low + records, high + Math.round(bytes / UNIT_BYTES)];
    if (to.some((half) => Math.abs(half) > HALF_MAX)) {
      this.#damage.records += records;
      this.#damage.bytes += bytes;
      return false;
    }
    const words = new Scratch(CAS_BYTES);
    setWord(words, 0, low, high);
    setWord(words, 8, to[0], to[1]);
    const { clientsMax } = this.#pool.membership;
    yield new Batch().cas(correctionOf(clientsMax, this.bound), words, 0);
    return swapped(words, 0);
  }
}
