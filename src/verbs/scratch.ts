/** Whether an element that is read and written keeps its bits when they are a NaN's. */
function keepsNaNs(): boolean {
  const words = new BigInt64Array([-1n, 0n]);
  const doubles = new Float64Array(words.buffer);
  doubles[1] = doubles[0];
  return words[1] === -1n;
}

/**
 * Views by which words are copied: one element at a time, so that no word is torn, with all of its
 * bits. In V8, Float64 elements do both. JavaScriptCore (Bun) replaces each NaN by one of its own,
 * so there a word is a BigInt, which takes longer. The type tells what V8 has.
 */
export const WordArray = keepsNaNs()
  ? Float64Array
  : (BigInt64Array as unknown as Float64ArrayConstructor);

/**
 * A client's own memory, the local end of every verb (what RDMA calls a local memory region).
 * All views are of the same bytes. Words are little-endian, as the layouts in the pool are.
 */
export class Scratch {
  u8!: Uint8Array;
  i32!: Int32Array;
  /** For copies of whole words alone: its elements need not be doubles (`WordArray`). */
  f64!: Float64Array;
  i64!: BigInt64Array;
  #buffer: Buffer | undefined;

  constructor(bytes: number) {
    this.#replace(bytes);
  }

  /** For the native string codecs, which only a Buffer offers. Created on first use. */
  get buffer(): Buffer {
    this.#buffer ??= Buffer.from(this.u8.buffer, this.u8.byteOffset, this.u8.length);
    return this.#buffer;
  }

  /** Makes room for `bytes`. The content is lost: call it before an operation fills the scratch. */
  ensure(bytes: number): void {
    if (bytes > this.u8.length) this.#replace(Math.max(bytes, 2 * this.u8.length));
  }

  /** Takes small ones from Node's buffer pool: a separate allocation takes ten times as long. */
  #replace(bytes: number): void {
    const size = Math.ceil(bytes / 64) * 64;
    const { buffer: memory, byteOffset: at } = Buffer.allocUnsafe(size).fill(0);
    this.u8 = new Uint8Array(memory, at, size);
    this.i32 = new Int32Array(memory, at, size / 4);
    this.f64 = new WordArray(memory, at, size / 8);
    this.i64 = new BigInt64Array(memory, at, size / 8);
    this.#buffer = undefined;
  }
}

const [lowestByte] = new Uint8Array(new Uint32Array([1]).buffer);
if (lowestByte !== 1) throw new Error('Stepwell needs a little-endian machine');

/**
 * 64-bit words as two 32-bit halves: BigInt arithmetic allocates, halves do not. Layouts keep the
 * half that decides a test (fingerprint, depth, state) in the high one.
 */
export function setWord(scratch: Scratch, offset: number, low: number, high: number): void {
  const word = offset >> 2;
  scratch.i32[word] = low;
  scratch.i32[word + 1] = high;
}

export function copyWord(scratch: Scratch, from: number, to: number): void {
  const { i32 } = scratch;
  i32[to >> 2] = i32[from >> 2];
  i32[(to >> 2) + 1] = i32[(from >> 2) + 1];
}

export function lowHalf(scratch: Scratch, offset: number): number {
  return scratch.i32[offset >> 2];
}

export function highHalf(scratch: Scratch, offset: number): number {
  return scratch.i32[(offset >> 2) + 1];
}

/** A word that holds a non-negative integer below 2^53 (epochs, counters, times). */
export function readInteger(scratch: Scratch, offset: number): number {
  const word = offset >> 2;
  return (scratch.i32[word + 1] >>> 0) * 2 ** 32 + (scratch.i32[word] >>> 0);
}

export function writeInteger(scratch: Scratch, offset: number, value: number): void {
  const word = offset >> 2;
  scratch.i32[word] = value | 0;
  scratch.i32[word + 1] = Math.floor(value / 2 ** 32) | 0;
}

/** A word that holds a double. */
export function readDouble(scratch: Scratch, offset: number): number {
  const value: number | bigint = scratch.f64[offset >> 3];
  return typeof value === 'number' ? value : new Float64Array(new BigInt64Array([value]).buffer)[0];
}

export function writeDouble(scratch: Scratch, offset: number, value: number): void {
  if (WordArray === Float64Array) scratch.f64[offset >> 3] = value;
  else scratch.i64[offset >> 3] = new BigInt64Array(new Float64Array([value]).buffer)[0];
}
