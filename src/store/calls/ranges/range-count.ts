import type { IndexScan, OrderedIndex } from '../../../indexes/contract.ts';
import type { Operation } from '../../../verbs/index.ts';
import type { RangeBounds } from '../../ordered-api.ts';
import { isEmptyRange, rangeOf } from './key-range.ts';

/** Counts the keys of a range, some at a time: each step is an operation of its own. */
export class RangeCount {
  readonly #scan: IndexScan | undefined;
  count = 0;

  /** Raises SW_INVALID_ARGUMENT. */
  constructor(index: OrderedIndex, bounds: RangeBounds) {
    const { range } = rangeOf(bounds);
    this.#scan = isEmptyRange(range) ? undefined : index.scan(range);
  }

  get done(): boolean {
    return this.#scan?.done ?? true;
  }

  *step(): Operation<void> {
    const scan = this.#scan;
    if (scan === undefined) return;
    if (scan.countNext) {
      this.count += yield* scan.countNext();
      return;
    }
    yield* scan.next(() => {
      this.count++;
    }, true);
  }
}
