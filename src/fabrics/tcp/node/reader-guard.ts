import { CAS, READ, type Scratch, WRITE } from '../../../verbs/index.ts';
import { requestBytes, verbBytes, verbKind, verbRegion } from '../wire.ts';
import type { NodeMemory } from './node-memory.ts';

/** Where the rows of clients are in a memory that begins with a pool. */
export interface RowTable {
  /** The first word of such a memory. */
  magic: bigint;
  at: number;
  rowBytes: number;
  /** Offset of the number of rows. */
  countAt: number;
}

/** Low bits of a row's first word; 0 if the row is free. */
const ROW_STATE = 3n;
const VERB_HEAD = 8;

/**
 * Lets a read-only session write one row of the client table: without a row, no other client would
 * know what it still reads. It takes one free row by a CAS, alone in its batch. From then on it may
 * write only to that row. When it frees the row it loses this right, because another client may
 * take the row at once.
 */
export class ReaderGuard {
  readonly #table: RowTable;
  readonly #memory: NodeMemory;
  #row = -1;

  constructor(table: RowTable, memory: NodeMemory) {
    this.#table = table;
    this.#memory = memory;
  }

  /** Whether all of the inspected verbs from `at` to `end` may be executed. */
  permits(input: Scratch, at: number, end: number): boolean {
    const { i32 } = input;
    for (let from = at; from < end; ) {
      const verb = i32[from >> 2];
      const next = from + VERB_HEAD + requestBytes(verbKind(verb), verbBytes(verb));
      const isAlone = from === at && next === end;
      const isPermitted =
        verbKind(verb) === READ ||
        this.#changesOwn(input, from) ||
        (isAlone && this.#takes(input, from));
      if (!isPermitted) return false;
      from = next;
    }
    return true;
  }

  /**
   * Whether the verb writes the session's row. The session loses the row before a verb that frees
   * it is executed.
   */
  #changesOwn({ i32, i64 }: Scratch, from: number): boolean {
    const verb = i32[from >> 2];
    const kind = verbKind(verb);
    const bytes = verbBytes(verb);
    const offset = i32[(from >> 2) + 1] >>> 0;
    const row = this.#rowOf(verbRegion(verb), offset, bytes);
    if (row < 0 || row !== this.#row || (kind !== WRITE && kind !== CAS)) return false;
    const start = this.#table.at + row * this.#table.rowBytes;
    if (offset >= start + 8) return true;
    if (offset !== start || bytes < 8) return false;
    const state = i64[((from + VERB_HEAD) >> 3) + (kind === CAS ? 1 : 0)];
    if ((state & ROW_STATE) === 0n) this.#row = -1;
    return true;
  }

  /** Whether the verb takes a free row for a session that has none. */
  #takes({ i32, i64 }: Scratch, from: number): boolean {
    const verb = i32[from >> 2];
    const offset = i32[(from >> 2) + 1] >>> 0;
    if (verbKind(verb) !== CAS || this.#row >= 0 || !this.#isRowStart(offset)) return false;
    if (this.#rowOf(verbRegion(verb), offset, 8) < 0) return false;
    const words = (from + VERB_HEAD) >> 3;
    return (i64[words] & ROW_STATE) === 0n && (i64[words + 1] & ROW_STATE) !== 0n;
  }

  /** Call after the verbs were executed; their results are at `into`. */
  executed({ i32, i64 }: Scratch, at: number, output: Scratch, into: number): void {
    const verb = i32[at >> 2];
    const offset = i32[(at >> 2) + 1] >>> 0;
    if (verbKind(verb) !== CAS || !this.#isRowStart(offset)) return;
    const expected = i64[(at + VERB_HEAD) >> 3];
    if ((expected & ROW_STATE) !== 0n || output.i64[into >> 3] !== expected) return;
    this.#row = this.#rowOf(verbRegion(verb), offset, 8);
  }

  #isRowStart(offset: number): boolean {
    return (offset - this.#table.at) % this.#table.rowBytes === 0;
  }

  /** The row that contains all of these bytes, or -1. */
  #rowOf(region: number, offset: number, bytes: number): number {
    const { magic, at, rowBytes, countAt } = this.#table;
    const { i64 } = this.#memory.regions[0];
    if (region !== 0 || offset < at || Atomics.load(i64, 0) !== magic) return -1;
    const row = Math.floor((offset - at) / rowBytes);
    const isWithin = offset + bytes <= at + (row + 1) * rowBytes;
    return isWithin && BigInt(row) < Atomics.load(i64, countAt >> 3) ? row : -1;
  }
}
