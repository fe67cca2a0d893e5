import { type Bound, LEDGER_LINE_BYTES } from '../../pool/bound.ts';
import type { Pool } from '../../pool/pool.ts';
import { Batch, type Operation, Scratch } from '../../verbs/index.ts';

/** Words of a line, each a double. */
const RECORDS = 0;
const BYTES = 1;
const EVICTED = 2;
const HITS = 3;
const MISSES = 4;
const LRU_REGRET = 5;
const LFU_REGRET = 6;
const WORDS = 8;

/** Changes of this client after which it looks at the lines of the others again, at the latest. */
const LOOK_AFTER = 64;
/** It adds no more than such a part of the limit before it looks. */
const PARTS = 128;

/** Sums over all clients of a store, for ever. */
export interface LedgerSums {
  readonly records: number;
  readonly bytes: number;
  readonly evicted: number;
  readonly hits: number;
  readonly misses: number;
}

/**
 * What a bounded store holds, by client: each has a line for its row of the client table, which it
 * alone writes, without waiting. The sum over all lines is what the store holds; a line may be
 * negative, because a client also removes what others have written. The next client of a row goes
 * on with the line as it stands.
 *
 * A client knows its own line, and looks at the others' now and then: when it has added half of its
 * share of what was left, or a 128th of the limit, and every 64 changes. In a full store each
 * insertion evicts as much as it adds. So the store holds at most its limit and, by each client but
 * one, a 128th of it (of few records, one) and its operations in flight; the client that looks next
 * evicts that. A client that dies leaves its line wrong by its operations in flight.
 */
export class Ledger {
  readonly bound: Bound;
  readonly #pool: Pool;
  readonly #own = new Float64Array(WORDS);
  readonly #others = new Float64Array(WORDS);
  readonly #lines: Scratch;
  #changesLeft = 0;
  /** What this client may add before it looks, in the bound's unit. */
  #amountLeft = 0;

  constructor(pool: Pool, bound: Bound) {
    this.bound = bound;
    this.#pool = pool;
    this.#lines = new Scratch(pool.layout.parameters.clientsMax * LEDGER_LINE_BYTES);
  }

  /** A client's ledger of a store that it has opened. */
  static *open(pool: Pool, bound: Bound): Operation<Ledger> {
    const ledger = new Ledger(pool, bound);
    yield* ledger.#read();
    ledger.#takeLine(pool.membership.id, ledger.#own);
    yield* ledger.look();
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

  /** What all clients together have learnt against each expert; see experts.ts. */
  get regrets(): { lru: number; lfu: number } {
    return { lru: this.#sum(LRU_REGRET), lfu: this.#sum(LFU_REGRET) };
  }

  /** How many records were evicted, ever. */
  get evicted(): number {
    return this.#sum(EVICTED);
  }

  /** How much more the store holds than it may, in its unit; 0 when it is just full. */
  get excess(): number {
    return this.#sum(this.#word) - this.bound.limit;
  }

  get #word(): number {
    return this.bound.unit === 'records' ? RECORDS : BYTES;
  }

  #sum(word: number): number {
    return this.#own[word] + this.#others[word];
  }

  /** An operation has changed what the store holds. */
  changed(records: number, bytes: number): void {
    this.#own[RECORDS] += records;
    this.#own[BYTES] += bytes;
    this.#changesLeft--;
    // What it removes others may have filled up again.
    this.#amountLeft -= Math.max(0, this.bound.unit === 'records' ? records : bytes);
  }

  /** This client has evicted a record because its view was over the limit. */
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

  /** Whether this client has changed so much that it should look at the others' lines. */
  get isStale(): boolean {
    return this.#changesLeft <= 0 || (this.#amountLeft < 0 && this.excess <= 0);
  }

  /** Reads the others' lines. One READ. */
  *look(): Operation<void> {
    yield* this.#read();
    const { id, clientsMax } = this.#pool.membership;
    this.#others.fill(0);
    const line = new Float64Array(WORDS);
    let clients = 1;
    for (let row = 1; row <= clientsMax; row++) {
      if (row === id) continue;
      this.#takeLine(row, line);
      if (line.every((value) => value === 0)) continue;
      clients++;
      for (let word = 0; word < WORDS; word++) this.#others[word] += line[word];
    }
    this.#changesLeft = LOOK_AFTER;
    const share = Math.floor(-this.excess / (2 * clients));
    const most = Math.max(1, Math.floor(this.bound.limit / PARTS));
    this.#amountLeft = Math.max(0, Math.min(share, most));
  }

  *#read(): Operation<void> {
    const bytes = this.#pool.membership.clientsMax * LEDGER_LINE_BYTES;
    yield new Batch().read(this.bound.block, bytes, this.#lines, 0);
  }

  /** What is no number stands for none: the pool may be damaged. */
  #takeLine(row: number, into: Float64Array): void {
    const first = (row - 1) * WORDS;
    for (let word = 0; word < WORDS; word++) {
      const value = this.#lines.f64[first + word];
      into[word] = Number.isFinite(value) ? value : 0;
    }
  }

  /** Writes this client's line, without waiting. */
  *publish(): Operation<void> {
    const line = this.bound.block + (this.#pool.membership.id - 1) * LEDGER_LINE_BYTES;
    yield* this.#pool.unwaited.doubles(line, this.#own, WORDS);
  }
}
