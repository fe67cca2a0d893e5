import { CODEC_STATE } from '../../../records/codec.ts';
import { Scratch } from '../../../verbs/index.ts';
import type { RecordBlock } from '../../contract.ts';
import { codecOf, flagsIn, itemHigh, valueAt, valueBytesOf } from '../../substrates/leaf/entry.ts';
import { CONTENT_AT } from '../../substrates/leaf/layout.ts';
import type { KeyOrder } from './key-order.ts';

/** Items of a leaf's image as the records that a scan hands out together. */
export class ItemBlock implements RecordBlock {
  words = new Scratch(0);
  count = 0;
  readonly keyAt: Int32Array;
  readonly keyBytes: Int32Array;
  readonly valueAt: Int32Array;
  readonly valueBytes: Int32Array;
  readonly codec: Uint8Array;

  constructor(span: number) {
    this.keyAt = new Int32Array(span);
    this.keyBytes = new Int32Array(span);
    this.valueAt = new Int32Array(span);
    this.valueBytes = new Int32Array(span);
    this.codec = new Uint8Array(span);
  }

  /** Takes items of an order that are in its range; false where one has times, or is a helper's. */
  fill(words: Scratch, order: KeyOrder, reverse: boolean, limit: number): boolean {
    const { at, keyBytes, sorted, first, end } = order;
    const count = Math.min(limit, end - first);
    for (let i = 0; i < count; i++) {
      const one = sorted[reverse ? end - 1 - i : first + i];
      const item = itemHigh(words, at[one]);
      const codec = codecOf(item);
      if (flagsIn(item) !== 0 || codec === CODEC_STATE) return false;
      this.keyAt[i] = at[one] + CONTENT_AT;
      this.keyBytes[i] = keyBytes[one];
      this.valueAt[i] = at[one] + valueAt(item);
      this.valueBytes[i] = valueBytesOf(item);
      this.codec[i] = codec;
    }
    this.words = words;
    this.count = count;
    return true;
  }
}
