import type { Scratch } from '../../../verbs/index.ts';
import type { Part } from '../../tcp/client/flight.ts';
import type { Pending } from '../binding/library.ts';

const FIRST_RESULTS = 64;

/**
 * The parts posted to one node in one turn of the event loop; one flush completes them all. The
 * arrays of result locations are reused.
 */
export class PostedGroup {
  parts: Part[] = [];
  /** The flush request, once it is posted. */
  request: Pending = 0;
  /** The end of the group's memory in the bounce ring. */
  mark = 0;
  length = 0;
  /** Empty from `length` on. Never shortened, because that takes longer than a verb. */
  readonly #scratch: (Scratch | undefined)[] = [];
  /** For each result: offset in its scratch, offset in the ring, and length. */
  to = new Int32Array(FIRST_RESULTS);
  from = new Int32Array(FIRST_RESULTS);
  bytes = new Int32Array(FIRST_RESULTS);

  add(scratch: Scratch, to: number, from: number, bytes: number): void {
    const row = this.length;
    if (row === this.to.length) this.#grow();
    this.#scratch[row] = scratch;
    this.to[row] = to;
    this.from[row] = from;
    this.bytes[row] = bytes;
    this.length = row + 1;
  }

  scratch(row: number): Scratch {
    return this.#scratch[row] as Scratch;
  }

  clear(): void {
    this.parts = [];
    for (let row = 0; row < this.length; row++) this.#scratch[row] = undefined;
    this.length = 0;
    this.request = 0;
  }

  #grow(): void {
    const rows = 2 * this.to.length;
    for (const name of ['to', 'from', 'bytes'] as const) {
      const longer = new Int32Array(rows);
      longer.set(this[name]);
      this[name] = longer;
    }
  }
}
