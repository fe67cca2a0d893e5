import { StepwellError } from '../../../errors.ts';
import type { Operation } from '../../../verbs/index.ts';
import type { IndexWalk, KeyRange } from '../../contract.ts';
import type { ChimeRequest } from '../request.ts';
import type { ChimeTree } from '../tree.ts';
import { isCursor } from './cursor-keys.ts';
import { findPosition } from './find-position.ts';
import { ChimeScan } from './scan.ts';

/** A walk over all records, or those of a range: a scan from the lowest key, a leaf at a time. */
export class ChimeWalk implements IndexWalk {
  readonly #tree: ChimeTree;
  readonly #range: KeyRange;
  #scan: ChimeScan;
  /** A cursor whose key has not been looked for yet; else 0. */
  #from: number;

  /** Raises SW_INVALID_ARGUMENT for what is no cursor. */
  constructor(tree: ChimeTree, cursor: number, range: KeyRange = {}) {
    if (!isCursor(cursor)) {
      throw new StepwellError('SW_INVALID_ARGUMENT', `not a cursor of this store: ${cursor}`);
    }
    this.#tree = tree;
    this.#from = cursor;
    this.#range = { lower: range.lower, upper: range.upper, width: 1 };
    this.#scan = new ChimeScan(tree, this.#range);
  }

  get done(): boolean {
    return this.#scan.done;
  }

  get cursor(): number {
    const { position } = this.#scan;
    if (this.#from !== 0) return this.#from;
    if (position === undefined || this.#scan.done) return 0;
    return this.#tree.cursors.give(position, this.#tree.geometry.shape.seed);
  }

  *next(
    visit: (request: ChimeRequest, keyBytes: number) => void,
    keysOnly = false,
  ): Operation<void> {
    if (this.#from !== 0) {
      const key = yield* findPosition(this.#tree, this.#from);
      this.#from = 0;
      // Also back: a cursor may be from a walk of another range.
      this.#scan.seek(key);
    }
    yield* this.#scan.next(visit, keysOnly);
  }
}
