import { ExpectedSums } from './expected-sums.ts';
import { expected, NEVER_WRITTEN } from './expected-word.ts';
import type { OracleShape } from './oracle-shape.ts';

const HEADER_WORDS = 16;
const STOP = 1;
const FULL_ALLOWED = 2;
const ROW_WORDS = 64;

/** Fields of a worker's row. */
export const ROW = {
  pid: 0,
  incarnation: 1,
  state: 2,
  /** Operations that all incarnations of the worker have completed. */
  heartbeat: 3,
  /** Writes to registers that all incarnations have begun. */
  sequence: 4,
  doing: 5,
  doingKey: 6,
  poolFull: 7,
  /** How often a walk returned a key more than once. */
  repeated: 8,
  /** Operations by kind, from here on. */
  kinds: 16,
} as const;

export const STARTING = 1;
export const RUNNING = 2;
export const DONE = 3;

/**
 * The oracle of the torture: a word for each key, a row for each worker, and sums. All workers
 * share its memory, which survives a killed worker.
 */
export class ExpectedValues {
  readonly shape: OracleShape;
  readonly #header: Int32Array;
  readonly #rows: Int32Array;
  readonly #words: Int32Array;
  /** Number of the last write that began. Unlike the base, a number is never used twice. */
  readonly #attempts: Int32Array;
  /** Number of the write that made the current value, if the key is present. */
  readonly #current: Int32Array;
  /** Row + 1 of the worker that owns the key. */
  readonly #locks: Int32Array;
  readonly sums: ExpectedSums;

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
    this.sums = new ExpectedSums(take(ExpectedSums.words(shape)), shape);
  }

  static bytes(shape: OracleShape): number {
    const words =
      HEADER_WORDS + ROW_WORDS * shape.rows + 4 * shape.keys + ExpectedSums.words(shape);
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

  /** Whether the pool may be full now, because a stopped worker delays the reuse of memory. */
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

  /** Only the owner may call it, or any worker if the owner is dead. */
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

  /** The caller owns the key, and may write after this. Returns the number and base to write. */
  beginWrite(key: number): { attempt: number; base: number } {
    const word = this.word(key);
    // The number first, so that no client reads a value whose number has not been counted.
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

  /** The caller owns the key, and knows that the pending operation did not happen. */
  rollBack(key: number): void {
    Atomics.store(this.#words, key, expected.rollBack(this.word(key)));
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
