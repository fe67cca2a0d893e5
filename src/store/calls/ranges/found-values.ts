import { markAsUntransferable } from 'node:worker_threads';
import type { RecordBlock } from '../../../indexes/contract.ts';
import type { Request } from '../../../indexes/substrates/request.ts';
import { CODEC_ASCII, CODEC_BYTES } from '../../../records/codec.ts';
import { pad8 } from '../../../records/layout.ts';
import { Scratch } from '../../../verbs/index.ts';
import type { Format } from '../../values/value-format.ts';
import { decodeValue, decodeValueAt } from '../decoding.ts';

/** Memory that values of a scan share: as much as Node's pool of small Buffers has at once. */
const SHARED_BYTES = 8192;

/** Texts that are cut from one string at most: it is kept for as long as one of them is in use. */
const TOGETHER_BYTES = 4096;

/**
 * The values of the records that a step met. ASCII texts are cut from one string, as `FoundKeys`
 * does. Short byte values stand together in memory that they
 * share, as small Buffers of Node do: a view of it takes half the time of an array of its own.
 */
export class FoundValues<V> {
  readonly #as: Format;
  readonly #isBytes: boolean;
  readonly #isText: boolean;
  readonly #texts = new Scratch(TOGETHER_BYTES);
  #values: V[] = [];
  #shared = new ArrayBuffer(0);
  #words = new Float64Array(this.#shared);
  #end = 0;

  constructor(as: Format) {
    this.#as = as;
    this.#isText = as === 'utf8' || as === 'auto';
    this.#isBytes = as === 'bytes' || as === 'auto';
  }

  /** Forgets what an error has left. */
  begin(): void {
    this.#values = [];
  }

  add(request: Request): void {
    this.#values.push(decodeValue(request, this.#as) as V);
  }

  addBlock(block: RecordBlock, count: number): void {
    if (this.#isText && this.#addTogether(block, count)) return;
    const { words, valueAt, valueBytes, codec } = block;
    const values = this.#values;
    for (let i = 0; i < count; i++) {
      const isShared = this.#isBytes && (codec[i] === CODEC_BYTES || this.#as === 'bytes');
      const value = isShared
        ? this.#share(words.f64, valueAt[i], valueBytes[i])
        : decodeValueAt(words, valueAt[i], valueBytes[i], codec[i], this.#as);
      values.push(value as V);
    }
  }

  /** False when some value is no ASCII text, or they are too long. */
  #addTogether({ words, valueAt, valueBytes, codec }: RecordBlock, count: number): boolean {
    const from = words.i32;
    const to = this.#texts.i32;
    let end = 0;
    for (let i = 0; i < count; i++) {
      const length = pad8(valueBytes[i]) >> 2;
      if (codec[i] !== CODEC_ASCII || 4 * (end + length) > TOGETHER_BYTES) return false;
      const source = valueAt[i] >> 2;
      for (let word = 0; word < length; word++) to[end + word] = from[source + word];
      end += length;
    }
    const text = this.#texts.buffer.latin1Slice(0, 4 * end);
    for (let i = 0, at = 0; i < count; i++) {
      this.#values.push(text.slice(at, at + valueBytes[i]) as V);
      at += pad8(valueBytes[i]);
    }
    return true;
  }

  end(): V[] {
    const values = this.#values;
    this.#values = [];
    return values;
  }

  #share(from: Float64Array, at: number, bytes: number): Uint8Array {
    const start = this.#end;
    const end = start + pad8(bytes);
    if (end > this.#shared.byteLength) {
      this.#renew();
      return this.#share(from, at, bytes);
    }
    const words = this.#words;
    for (let to = start >> 3, source = at >> 3; to < end >> 3; to++) words[to] = from[source++];
    this.#end = end;
    return new Uint8Array(this.#shared, start, bytes);
  }

  /** A value that is transferred to another thread would take the others along. */
  #renew(): void {
    this.#shared = new ArrayBuffer(SHARED_BYTES);
    this.#words = new Float64Array(this.#shared);
    this.#end = 0;
    markAsUntransferable(this.#shared);
  }
}
