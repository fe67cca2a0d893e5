import { CAS, READ, type Scratch, WRITE } from '../../../verbs/index.ts';
import { requestBytes, verbBytes, verbKind, verbRegion } from '../wire.ts';
import type { NodeMemory } from './node-memory.ts';

/** Where clients' rows stand in a memory that begins with a pool. */
export interface RowTable {
  /** First word of such a memory. */
  magic: bigint;
  at: number;
  rowBytes: number;
  /** Offset of the word that says how many rows there are. */
  countAt: number;
}

/** Low bits of a row's first word, which are 0 when the row is free. */
const ROW_STATE = 3n;
const VERB_HEAD = 8;

/**
 * What a session that may only read can write: a row of the client table, without which nobody
 * would know what it still reads. It takes a free row by a CAS, alone in its batch, and from then
 * on may write to that row, and to no other.
 */
export class ReaderGuard {
  readonly #table: RowTable;
  readonly #memory: NodeMemory;
  #row = -1;

  constructor(table: RowTable, memory: NodeMemory) {
    this.#table = table;
    this.#memory = memory;
  }

  /** Whether all verbs from `at` to `end`, which were inspected, may be executed. */
  permits({ i32, i64 }: Scratch, at: number, end: number): boolean {
    for (let from = at; from < end; ) {
      const verb = i32[from >> 2];
      const kind = verbKind(verb);
      const bytes = verbBytes(verb);
      const next = from + VERB_HEAD + requestBytes(kind, bytes);
      const row = this.#rowOf(verbRegion(verb), i32[(from >> 2) + 1] >>> 0, bytes);
      const isOwn = row >= 0 && row === this.#row;
      if (kind !== READ && !(isOwn && (kind === WRITE || kind === CAS))) {
        const isAlone = from === at && next === end;
        const takes = kind === CAS && this.#isRowStart(i32[(from >> 2) + 1] >>> 0) && row >= 0;
        const isFree = takes && (i64[(from + VERB_HEAD) >> 3] & ROW_STATE) === 0n;
        if (!isAlone || !isFree) return false;
      }
      from = next;
    }
    return true;
  }

  /** Call when they were executed; results stand at `into`. */
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

  /** The row that all of these bytes are in, or -1. */
  #rowOf(region: number, offset: number, bytes: number): number {
    const { magic, at, rowBytes, countAt } = this.#table;
    const { i64 } = this.#memory.regions[0];
    if (region !== 0 || offset < at || Atomics.load(i64, 0) !== magic) return -1;
    const row = Math.floor((offset - at) / rowBytes);
    const isWithin = offset + bytes <= at + (row + 1) * rowBytes;
    return isWithin && BigInt(row) < Atomics.load(i64, countAt >> 3) ? row : -1;
  }
}
