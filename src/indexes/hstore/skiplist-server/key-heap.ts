import { HASH_PADDING } from '../../../records/hash.ts';
import { type PaddedKey, paddedBytes } from '../protocol/record-keys.ts';

/** Keys stand at multiples of this; places are numbered in it. */
const UNIT_BYTES = HASH_PADDING;
const PAGE_SHIFT = 18;
const PAGE_UNITS = 2 ** PAGE_SHIFT;
/** The first page is small: most skiplists of tests are. Each next one has twice as much. */
const FIRST_UNITS = 64;

/**
 * The keys' bytes outside of the garbage collector's memory, in pages of up to 4 MiB: ten million
 * strings would be more than what Node grants itself, and each collection would trace them.
 */
export class KeyHeap {
  readonly #bytes: Uint8Array[] = [];
  readonly #words: Int32Array[] = [];
  readonly #texts: Buffer[] = [];
  /** The next unit of the last page, and its end. */
  #next = 0;
  #end = 0;

  /** Room for a key of this many bytes: its place. */
  take(bytes: number): number {
    const units = unitsOf(bytes);
    if (this.#next + units > this.#end) this.#addPage(units);
    const place = (this.#words.length - 1) * PAGE_UNITS + this.#next;
    this.#next += units;
    return place;
  }

  #addPage(units: number): void {
    const wanted = FIRST_UNITS * 2 ** Math.min(this.#words.length, PAGE_SHIFT);
    const size = Math.min(PAGE_UNITS, Math.max(units, wanted));
    const memory = new ArrayBuffer(size * UNIT_BYTES);
    this.#bytes.push(new Uint8Array(memory));
    this.#words.push(new Int32Array(memory));
    this.#texts.push(Buffer.from(memory));
    this.#next = 0;
    this.#end = size;
  }

  put(place: number, { i32, at, bytes }: PaddedKey): void {
    const words = this.#words[place >>> PAGE_SHIFT];
    const to = offsetOf(place) >> 2;
    for (let i = 0, from = at >> 2; i < paddedBytes(bytes) >> 2; i++) words[to + i] = i32[from + i];
  }

  /** The page's bytes; the key begins at `offsetOf`. */
  bytesAt(place: number): Uint8Array {
    return this.#bytes[place >>> PAGE_SHIFT];
  }

  wordsAt(place: number): Int32Array {
    return this.#words[place >>> PAGE_SHIFT];
  }

  textAt(place: number, bytes: number): string {
    const at = offsetOf(place);
    return this.#texts[place >>> PAGE_SHIFT].latin1Slice(at, at + bytes);
  }
}

/** Where a place is in its page, in bytes. */
export function offsetOf(place: number): number {
  return (place & (PAGE_UNITS - 1)) * UNIT_BYTES;
}

/** Units that a key takes. */
export function unitsOf(bytes: number): number {
  return Math.max(1, paddedBytes(bytes) / UNIT_BYTES);
}
