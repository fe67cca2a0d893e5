/**
 * A client's own memory, the local end of every verb (what RDMA calls a local memory region).
 * All views are of the same bytes. Words are little-endian, as the layouts in the pool are.
 */
export class Scratch {
  u8!: Uint8Array;
  i32!: Int32Array;
  f64!: Float64Array;
  i64!: BigInt64Array;
  #buffer: Buffer | undefined;

  constructor(bytes: number) {
    this.#replace(bytes);
  }

  /** For the native string codecs, which only a Buffer offers; made when first asked for. */
  get buffer(): Buffer {
    this.#buffer ??= Buffer.from(this.u8.buffer, this.u8.byteOffset, this.u8.length);
    return this.#buffer;
  }

  /** Makes room for `bytes`. The content is lost: call it before an operation fills the scratch. */
  ensure(bytes: number): void {
    if (bytes > this.u8.length) this.#replace(Math.max(bytes, 2 * this.u8.length));
  }

  /** A small one is a part of Node's pool of buffers: memory of its own takes ten times as long. */
  #replace(bytes: number): void {
    const size = Math.ceil(bytes / 64) * 64;
    const { buffer: memory, byteOffset: at } = Buffer.allocUnsafe(size).fill(0);
    this.u8 = new Uint8Array(memory, at, size);
    this.i32 = new Int32Array(memory, at, size / 4);
    this.f64 = new Float64Array(memory, at, size / 8);
    this.i64 = new BigInt64Array(memory, at, size / 8);
    this.#buffer = undefined;
  }
}

const [lowestByte] = new Uint8Array(new Uint32Array([1]).buffer);
if (lowestByte !== 1) throw new Error('Stepwell needs a little-endian machine');
