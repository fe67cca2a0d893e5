import { Scratch } from '../../verbs/index.ts';
import { frameBytes, HEAD_BYTES, WireError } from './wire.ts';

const FIRST_BYTES = 16 * 1024;

/**
 * What has arrived on one connection and was not used yet, in aligned memory. Frames begin at
 * multiples of 8 because all are whole words and what is left moves to the front.
 */
export class Inbox {
  scratch = new Scratch(FIRST_BYTES);
  /** Where the next frame begins, and where what has arrived ends. */
  start = 0;
  #end = 0;
  /** Longer frames end the connection. */
  #frameBytesMax: number;

  constructor(frameBytesMax: number) {
    this.#frameBytesMax = frameBytesMax;
  }

  get waiting(): number {
    return this.#end - this.start;
  }

  /** Allows longer frames, once it is known who sends them. */
  allow(frameBytesMax: number): void {
    this.#frameBytesMax = frameBytesMax;
  }

  append(chunk: Uint8Array): void {
    if (this.#end + chunk.length > this.scratch.u8.length) this.#makeRoom(chunk.length);
    this.scratch.u8.set(chunk, this.#end);
    this.#end += chunk.length;
  }

  /** Bytes of the frame at `start` when all of it is here, else 0. Raises WireError. */
  frame(): number {
    if (this.waiting < HEAD_BYTES) return 0;
    const bytes = frameBytes(this.scratch.i32[this.start >> 2]);
    if (bytes < HEAD_BYTES || bytes > this.#frameBytesMax) {
      throw new WireError(`a frame of ${bytes} bytes`);
    }
    return bytes <= this.waiting ? bytes : 0;
  }

  skip(bytes: number): void {
    this.start += bytes;
  }

  #makeRoom(bytes: number): void {
    const waiting = this.waiting;
    if (waiting + bytes <= this.scratch.u8.length) {
      this.scratch.u8.copyWithin(0, this.start, this.#end);
    } else {
      const larger = new Scratch(2 * (waiting + bytes));
      larger.u8.set(this.scratch.u8.subarray(this.start, this.#end));
      this.scratch = larger;
    }
    this.start = 0;
    this.#end = waiting;
  }
}
