/**
 * The oracle of the torture runs, after RocksDB's db_stress (`expected_value.h`): one 32-bit word a
 * key, in memory that all workers share and that outlives a killed one.
 *
 *   0-14 value base | 15 write pending | 16-29 delete counter | 30 delete pending | 31 deleted
 *
 * A writer owns its key (`tryLock`), marks the operation pending before it begins and commits after
 * it was acknowledged. A reader samples the word before and after and accepts anything between.
 */
const BASE_MASK = 0x7fff;
const WRITE_PENDING = 1 << 15;
const DELETES_SHIFT = 16;
const DELETES_MASK = 0x3fff;
const DELETE_PENDING = 1 << 30;
const DELETED = 1 << 31;
/** A key that was never written. */
export const NEVER_WRITTEN = DELETED;

export const expected = {
  base: (word: number) => word & BASE_MASK,
  deletes: (word: number) => (word >>> DELETES_SHIFT) & DELETES_MASK,
  isDeleted: (word: number) => (word & DELETED) !== 0,
  isWritePending: (word: number) => (word & WRITE_PENDING) !== 0,
  isDeletePending: (word: number) => (word & DELETE_PENDING) !== 0,
  nextBase: (word: number) => (word + 1) & BASE_MASK,

  beginWrite: (word: number) => word | WRITE_PENDING,
  beginDelete: (word: number) => word | DELETE_PENDING,
  /** The pending operation did not take place. */
  rollBack: (word: number) => word & ~(WRITE_PENDING | DELETE_PENDING),
  commitWrite: (word: number) =>
    (word & ~(BASE_MASK | WRITE_PENDING | DELETED)) | expected.nextBase(word),
  commitDelete: (word: number) => {
    const deletes = (expected.deletes(word) + 1) & DELETES_MASK;
    const kept = word & ~((DELETES_MASK << DELETES_SHIFT) | DELETE_PENDING);
    return kept | (deletes << DELETES_SHIFT) | DELETED;
  },

  /** The base after the pending write, if there is one. */
  finalBase: (word: number) =>
    expected.isWritePending(word) ? expected.nextBase(word) : expected.base(word),
  finalDeletes: (word: number) =>
    (expected.deletes(word) + (expected.isDeletePending(word) ? 1 : 0)) & DELETES_MASK,

  /** For a read between the samples `before` and `after`. */
  mustExist: (before: number, after: number) =>
    !expected.isDeleted(before) && expected.deletes(before) === expected.finalDeletes(after),
  mustNotExist: (before: number, after: number) =>
    expected.isDeleted(before) && expected.base(before) === expected.finalBase(after),
  mayHaveBase: (base: number, before: number, after: number) => {
    const low = expected.base(before);
    const high = expected.finalBase(after);
    return low <= high ? base >= low && base <= high : base >= low || base <= high;
  },
};

export interface OracleShape {
  /** Workers at a time. A worker that replaces a dead one takes over its row. */
  rows: number;
  /** Keys that are written by one worker at a time. */
  keys: number;
  /** Sums that all workers add to at once. */
  counters: number;
  /**
   * Keys that all workers insert and remove at once: acknowledged inserts less removals = presence.
   */
  tokens: number;
}

const HEADER_WORDS = 16;
const STOP = 1;
const FULL_ALLOWED = 2;
const ROW_WORDS = 64;

/** Words of a worker's row. */
export const ROW = {
  pid: 0,
  incarnation: 1,
  state: 2,
  /** Operations completed, by all incarnations. */
  heartbeat: 3,
  /** Writes to registers begun, by all incarnations. */
  sequence: 4,
  doing: 5,
  doingKey: 6,
  poolFull: 7,
  /** Keys that one walk handed out more than once. */
  repeated: 8,
  /** Operations by kind, from here on. */
  kinds: 16,
} as const;

export const STARTING = 1;
export const RUNNING = 2;
export const DONE = 3;

/** Sum that was acknowledged, what is under way, and what was under way when a worker died. */
const ACKNOWLEDGED = 0;
const PENDING = 1;
const UNCERTAIN = 2;

/** A range of sums: `low` if nothing uncertain took place, `high` if everything did. */
export interface Bounds {
  low: number;
  high: number;
}

export class ExpectedValues {
  readonly shape: OracleShape;
  readonly #header: Int32Array;
  readonly #rows: Int32Array;
  readonly #words: Int32Array;
  /** Number of the last write begun; unlike the base it is never used twice. */
  readonly #attempts: Int32Array;
  /** Number of the write whose value is current, if the key is present. */
  readonly #current: Int32Array;
  /** Row + 1 of the worker that owns the key. */
  readonly #locks: Int32Array;
  readonly #sums: Int32Array;

  constructor(memory: ArrayBufferLike, shape: OracleShape) {
    this.shape = shape;
    let at = 0;
    const take = (words: number) => {
      const part = new Int32Array(memory, at * 4, words);
      at += words;
      return part;
    };
    this.#header = take(HEADER_WORDS);
    this.#rows = take(ROW_WORDS * shape.rows);
    this.#words = take(shape.keys);
    this.#attempts = take(shape.keys);
    this.#current = take(shape.keys);
    this.#locks = take(shape.keys);
    this.#sums = take(sumWords(shape));
  }

  static bytes(shape: OracleShape): number {
    const words = HEADER_WORDS + ROW_WORDS * shape.rows + 4 * shape.keys + sumWords(shape);
    return Math.ceil((4 * words) / 4096) * 4096;
  }

  /** For new memory, before any process uses it. */
  format(): this {
    this.#words.fill(NEVER_WRITTEN);
    return this;
  }

  get stopping(): boolean {
    return Atomics.load(this.#header, STOP) !== 0;
  }

  stop(): void {
    Atomics.store(this.#header, STOP, 1);
  }

  /** Whether a full pool is no fault now: a worker is stopped and holds back re-use. */
  get fullAllowed(): boolean {
    return Atomics.load(this.#header, FULL_ALLOWED) !== 0;
  }

  set fullAllowed(allowed: boolean) {
    Atomics.store(this.#header, FULL_ALLOWED, allowed ? 1 : 0);
  }

  row(row: number, field: number): number {
    return Atomics.load(this.#rows, row * ROW_WORDS + field);
  }

  setRow(row: number, field: number, value: number): void {
    Atomics.store(this.#rows, row * ROW_WORDS + field, value);
  }

  addRow(row: number, field: number, by = 1): number {
    return Atomics.add(this.#rows, row * ROW_WORDS + field, by) + by;
  }

  total(field: number): number {
    let sum = 0;
    for (let row = 0; row < this.shape.rows; row++) sum += this.row(row, field);
    return sum;
  }

  tryLock(key: number, row: number): boolean {
    return Atomics.compareExchange(this.#locks, key, 0, row + 1) === 0;
  }

  /** May be called by the owner only, or for a worker that is dead. */
  unlock(key: number): void {
    Atomics.store(this.#locks, key, 0);
  }

  /** Row of the worker that owns the key, or -1. */
  owner(key: number): number {
    return Atomics.load(this.#locks, key) - 1;
  }

  word(key: number): number {
    return Atomics.load(this.#words, key);
  }

  attempts(key: number): number {
    return Atomics.load(this.#attempts, key);
  }

  current(key: number): number {
    return Atomics.load(this.#current, key);
  }

  /** The caller owns the key. Returns the number and the base of the write that may begin now. */
  beginWrite(key: number): { attempt: number; base: number } {
    const word = this.word(key);
    // First the number: nobody can read a value before its number counts as begun.
    const attempt = Atomics.add(this.#attempts, key, 1) + 1;
    Atomics.store(this.#words, key, expected.beginWrite(word));
    return { attempt, base: expected.nextBase(word) };
  }

  /** The caller owns the key, and the write was acknowledged. */
  commitWrite(key: number): void {
    Atomics.store(this.#current, key, this.attempts(key));
    Atomics.store(this.#words, key, expected.commitWrite(this.word(key)));
  }

  /** The caller owns the key. */
  beginDelete(key: number): void {
    Atomics.store(this.#words, key, expected.beginDelete(this.word(key)));
  }

  /** The caller owns the key, and the deletion was acknowledged. */
  commitDelete(key: number): void {
    Atomics.store(this.#words, key, expected.commitDelete(this.word(key)));
  }

  /** The caller owns the key, and knows that the pending operation did not take place. */
  rollBack(key: number): void {
    Atomics.store(this.#words, key, expected.rollBack(this.word(key)));
  }

  /** The worker of `row` is about to change the sum by `by`, which is not 0. */
  beginSum(row: number, sum: number, by: number): void {
    Atomics.store(this.#sums, this.#sumAt(row, sum, PENDING), by);
  }

  endSum(row: number, sum: number, done: boolean): void {
    const pending = this.#sumAt(row, sum, PENDING);
    const by = Atomics.load(this.#sums, pending);
    if (done) Atomics.add(this.#sums, this.#sumAt(row, sum, ACKNOWLEDGED), by);
    Atomics.store(this.#sums, pending, 0);
  }

  /** What was under way in a dead worker may or may not have taken place. */
  abandonSums(row: number): void {
    for (let sum = 0; sum < sumsOf(this.shape); sum++) {
      const pending = this.#sumAt(row, sum, PENDING);
      const by = Atomics.load(this.#sums, pending);
      if (by === 0) continue;
      const at = this.#sumAt(row, sum, by > 0 ? UNCERTAIN : UNCERTAIN + 1);
      Atomics.add(this.#sums, at, by);
      Atomics.store(this.#sums, pending, 0);
    }
  }

  acknowledged(row: number, sum: number): number {
    return Atomics.load(this.#sums, this.#sumAt(row, sum, ACKNOWLEDGED));
  }

  /** What the sum may be. Nothing may be under way. */
  bounds(sum: number): Bounds {
    let low = 0;
    let high = 0;
    for (let row = 0; row < this.shape.rows; row++) {
      const sure = this.acknowledged(row, sum);
      low += sure + Atomics.load(this.#sums, this.#sumAt(row, sum, UNCERTAIN + 1));
      high += sure + Atomics.load(this.#sums, this.#sumAt(row, sum, UNCERTAIN));
    }
    return { low, high };
  }

  #sumAt(row: number, sum: number, field: number): number {
    return 4 * (row * sumsOf(this.shape) + sum) + field;
  }

  describe(key: number): string {
    const word = this.word(key);
    const state = expected.isDeleted(word) ? 'deleted' : 'present';
    const pending = expected.isWritePending(word)
      ? ', write pending'
      : expected.isDeletePending(word)
        ? ', delete pending'
        : '';
    return `${state}${pending}, base ${expected.base(word)}, write ${this.current(key)} of ${this.attempts(key)}, ${expected.deletes(word)} deletes, owner ${this.owner(key)}`;
  }
}

/** Counters first, then tokens. */
function sumsOf({ counters, tokens }: OracleShape): number {
  return counters + tokens;
}

function sumWords(shape: OracleShape): number {
  return 4 * shape.rows * sumsOf(shape);
}
