import type { IndexScan, KeyRange, OrderedIndex, RecordBlock } from '../../../indexes/contract.ts';
import type { Request } from '../../../indexes/substrates/request.ts';
import { CODEC_STATE } from '../../../records/codec.ts';
import type { Operation } from '../../../verbs/index.ts';
import { isEmptyRange, rangeBehind, rangeFrom } from './key-range.ts';
import { foundKey, type Taker } from './takers.ts';

/** What of the records a scan reads. */
export type Part = 'records' | 'keys';

/**
 * A scan of a range, whatever fabric runs its steps: records are read by `step`, an operation, and
 * then taken one by one or together. Between two steps nothing of the pool is held.
 */
export class RangeScan<T> {
  readonly #index: OrderedIndex;
  readonly #range: KeyRange;
  readonly #keysOnly: boolean;
  readonly #taker: Taker<T>;
  readonly #visit: (request: Request, keyBytes: number) => void;
  readonly #visitBlock: ((block: RecordBlock) => void) | undefined;
  /** Undefined at the end of the range. */
  #steps: IndexScan | undefined;
  /** Records that may still be taken. */
  #left: number;
  /** Records of the step in progress that may still be taken. */
  #room = 0;
  /** Whether expired or hidden records were left out, which the index counts towards the limit. */
  #skipped = false;
  /** Since then: the key that was met last. */
  #last: Uint8Array | undefined;
  /** What the last step met, and how much of it has been taken. */
  #met: T[] = [];
  #at = 0;

  constructor(index: OrderedIndex, range: KeyRange, limit: number, taker: Taker<T>, part: Part) {
    this.#index = index;
    this.#keysOnly = part === 'keys';
    this.#taker = taker;
    this.#range = range;
    this.#left = limit;
    this.#steps = this.#begin(range);
    this.#visit = (request, keyBytes) => {
      const isHidden = request.foundCodec === CODEC_STATE || index.records.isExpired(request);
      if (isHidden) this.#skipped = true;
      else if (this.#room-- > 0) taker.add(request, keyBytes);
      if (this.#skipped) this.#last = foundKey(request, keyBytes);
    };
    if (taker.addBlock !== undefined) this.#visitBlock = (block) => this.#addBlock(block);
  }

  #addBlock(block: RecordBlock): void {
    const { count, words, keyAt, keyBytes } = block;
    const wanted = Math.min(count, Math.max(0, this.#room));
    this.#room -= count;
    this.#taker.addBlock?.(block, wanted);
    const at = keyAt[count - 1];
    if (this.#skipped && count > 0) this.#last = words.u8.slice(at, at + keyBytes[count - 1]);
  }

  /** Whether nothing is left, neither to take nor to read. */
  get done(): boolean {
    return this.#left === 0 || (this.#at === this.#met.length && (this.#steps?.done ?? true));
  }

  /** Records that have been read and can be taken. */
  get waiting(): number {
    return this.#met.length - this.#at;
  }

  /** The next record that has been read; undefined when a step has to be run, or at the end. */
  take(): T | undefined {
    if (this.#at === this.#met.length || this.#left === 0) return undefined;
    this.#left--;
    return this.#met[this.#at++];
  }

  /** Up to `size` of the records that have been read. */
  takeMany(size: number): T[] {
    const met = this.#met;
    const from = this.#at;
    const end = Math.min(met.length, from + Math.min(size, this.#left));
    this.#left -= end - from;
    this.#at = end;
    if (from > 0 || end < met.length) return met.slice(from, end);
    // All of them: the list itself, which is not used again.
    this.#met = [];
    this.#at = 0;
    return met;
  }

  /** Reads the next records, maybe none. Only when all that was read has been taken. */
  *step(): Operation<void> {
    this.#met = [];
    this.#at = 0;
    if (this.#steps === undefined) return;
    this.#room = this.#left;
    this.#taker.begin();
    try {
      yield* this.#steps.next(this.#visit, this.#keysOnly, this.#visitBlock);
    } catch (error) {
      // Some records of the step may have been met and others not.
      this.end();
      throw error;
    }
    this.#met = this.#taker.end();
    if (this.#skipped && this.#steps.done) this.#steps = this.#beginBehind();
  }

  /** In place of those records further ones are in the limit. */
  #beginBehind(): IndexScan | undefined {
    const left = this.#left - this.#met.length;
    if (left <= 0 || this.#last === undefined || this.#left === Number.POSITIVE_INFINITY) {
      return undefined;
    }
    const key = this.#last;
    this.#skipped = false;
    this.#last = undefined;
    const range = rangeBehind(this.#range, key);
    return isEmptyRange(range) ? undefined : this.#index.scan({ ...range, limit: left });
  }

  /** Goes on at `key`, or with the whole range where the key is before it. */
  seek(key: Uint8Array): void {
    if (this.#left === 0) return;
    this.#met = [];
    this.#at = 0;
    this.#steps = this.#begin(rangeFrom(this.#range, key));
  }

  #begin(range: KeyRange): IndexScan | undefined {
    if (this.#left === 0 || isEmptyRange(range)) return undefined;
    return this.#index.scan({ ...range, limit: this.#left });
  }

  /** Nothing comes any more, also after a seek. */
  end(): void {
    this.#left = 0;
    this.#met = [];
    this.#at = 0;
    this.#steps = undefined;
  }
}
