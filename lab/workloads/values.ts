import { Buffer } from 'node:buffer';
import { mix32 } from '../../src/random/prng.ts';

export const VALUE_BYTES = 32;

/**
 * Values that name their record and the write that made them, so that a benchmark can check that it
 * reads what it wrote: 8 bytes of index, 4 of version, then filler derived from both. Values of 8
 * bytes have no version.
 */
export class ValueGenerator {
  readonly length: number;

  constructor(length = VALUE_BYTES) {
    if (!Number.isInteger(length) || (length < 12 && length !== 8)) {
      throw new RangeError(`a value needs 8 bytes, or at least 12, got ${length}`);
    }
    this.length = length;
  }

  write(index: number, version: number, target: Uint8Array, offset = 0): void {
    const low = index >>> 0;
    const high = Math.floor(index / 2 ** 32) >>> 0;
    putWord(target, offset, low);
    putWord(target, offset + 4, high);
    if (this.length === 8) return;
    putWord(target, offset + 8, version);
    const filler = mix32(low ^ mix32(high ^ version));
    for (let at = 12; at < this.length; at++) {
      target[offset + at] = (filler >>> (8 * (at & 3))) + at;
    }
  }

  /** A new Buffer, allocated from Node's buffer pool as small values of a program are. */
  buffer(index: number, version = 0): Buffer {
    const value = Buffer.allocUnsafe(this.length);
    this.write(index, version, value);
    return value;
  }

  /** Whether `value` is one version of the record's value, neither truncated nor torn. */
  belongsTo(value: Uint8Array, index: number): boolean {
    if (value.length !== this.length) return false;
    const expected = Buffer.allocUnsafe(this.length);
    this.write(index, takeWord(value, 8), expected);
    return expected.equals(value);
  }
}

function putWord(target: Uint8Array, offset: number, word: number): void {
  target[offset] = word;
  target[offset + 1] = word >>> 8;
  target[offset + 2] = word >>> 16;
  target[offset + 3] = word >>> 24;
}

function takeWord(source: Uint8Array, offset: number): number {
  const low = source[offset] | (source[offset + 1] << 8) | (source[offset + 2] << 16);
  return (low | (source[offset + 3] << 24)) >>> 0;
}
