import { Scratch } from '../../../verbs/index.ts';
import { frameBytes, HEAD_BYTES, WireError } from '../wire.ts';

const FIRST_BYTES = 16 * 1024;
/** Room for one receive: what the system is asked for at once. */
const RECEIVE_BYTES = 128 * 1024;

/**
 * Bytes that have arrived on one connection and are not used yet, in aligned memory. Frames begin
 * at multiples of 8, because all are whole words and unused bytes move to the front.
 *
 * A socket either hands over bytes that it has read (`append` copies them), or reads straight into
 * `room` and says how many (`arrived`).
 */
export class Inbox {
  scratch = new Scratch(FIRST_BYTES);
  /** Where the next frame begins, and where what has arrived ends. */
  start = 0;
  #end = 0;
  /** The room of an empty inbox, made once: between two requests nothing is left over. */
  #wholeRoom: Uint8Array = new Uint8Array(0);
  /** Longer frames end the connection. */
  #frameBytesMax: number;

  constructor(frameBytesMax: number) {
    this.#frameBytesMax = frameBytesMax;
  }

  get waiting(): number {
    return this.#end - this.start;
  }

  /** Allows longer frames, once the sender is known. */
  allow(frameBytesMax: number): void {
    this.#frameBytesMax = frameBytesMax;
  }

  append(chunk: Uint8Array): void {
    this.#rewind();
    if (this.#end + chunk.length > this.scratch.u8.length) this.#makeRoom(chunk.length);
    this.scratch.u8.set(chunk, this.#end);
    this.#end += chunk.length;
  }

  /** Where the next receive goes. Stays valid until `arrived`, and is then asked for again. */
  room(): Uint8Array {
    this.#rewind();
    if (this.#end === 0 && this.#wholeRoom.length > 0) return this.#wholeRoom;
    if (this.scratch.u8.length - this.#end < RECEIVE_BYTES) this.#makeRoom(RECEIVE_BYTES);
    if (this.#end > 0) return this.scratch.u8.subarray(this.#end);
    this.#wholeRoom = this.scratch.u8.subarray(0);
    return this.#wholeRoom;
  }

  /** So many bytes of `room` were filled. */
  arrived(bytes: number): void {
    this.#end += bytes;
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

  #rewind(): void {
    if (this.start < this.#end) return;
    this.start = 0;
    this.#end = 0;
  }

  #makeRoom(bytes: number): void {
    const waiting = this.waiting;
    if (waiting + bytes <= this.scratch.u8.length) {
      this.scratch.u8.copyWithin(0, this.start, this.#end);
    } else {
      const larger = new Scratch(2 * (waiting + bytes));
      larger.u8.set(this.scratch.u8.subarray(this.start, this.#end));
      this.scratch = larger;
      this.#wholeRoom = new Uint8Array(0);
    }
    this.start = 0;
    this.#end = waiting;
  }
}
