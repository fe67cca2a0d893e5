import type { IndexScan, KeyRange, OrderedIndex } from '../../../indexes/contract.ts';
import type { RecordIo } from '../../../indexes/substrates/record-io.ts';
import { CODEC_STATE } from '../../../records/codec.ts';
import type { Operation } from '../../../verbs/index.ts';
import { isEmptyRange } from './key-range.ts';

/** Counts the keys of a range, some at a time: each step is an operation of its own. */
export class RangeCount {
  readonly #scan: IndexScan | undefined;
  readonly #records: RecordIo;
  readonly #isTimed: boolean;
  count = 0;

  /** In a store that is timed records may have expired. */
  constructor(index: OrderedIndex, range: KeyRange, isTimed: boolean) {
    this.#records = index.records;
    this.#isTimed = isTimed;
    this.#scan = isEmptyRange(range) ? undefined : index.scan(range);
  }

  get done(): boolean {
    return this.#scan?.done ?? true;
  }

  *step(): Operation<void> {
    const scan = this.#scan;
    if (scan === undefined) return;
    if (scan.countNext && !this.#isTimed) {
      this.count += yield* scan.countNext();
      return;
    }
    yield* scan.next((request) => {
      if (request.foundCodec === CODEC_STATE) return;
      if (!this.#records.isExpired(request)) this.count++;
    }, true);
  }
}
