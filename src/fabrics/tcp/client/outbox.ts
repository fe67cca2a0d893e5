import type { Writable } from 'node:stream';
import { Scratch } from '../../../verbs/index.ts';
import { FAILURE, HEAD_BYTES, headWord, padded } from '../wire.ts';

const BUFFER_BYTES = 64 * 1024;
const KEPT_BUFFERS = 4;

/** A buffer that the socket has, and how many bytes of it leave. */
interface Leaving {
  buffer: Scratch;
  bytes: number;
}

/**
 * Frames on their way out, in aligned memory: whatever is put in between two flushes leaves in one
 * send. A buffer is used again when the system has taken its bytes, mostly at once: then the next
 * frames are put where the caches are warm.
 */
export class Outbox {
  readonly #socket: Writable;
  readonly #idle: Scratch[] = [];
  /** Buffers that the system has not taken yet: it takes them in this order. */
  readonly #leaving: Leaving[] = [];
  #leavingBytes = 0;
  #current: Scratch | undefined;
  /** Bytes in the current buffer. */
  length = 0;

  constructor(socket: Writable) {
    this.#socket = socket;
  }

  /** Room for a frame; it begins at `length` of the returned memory, which is then larger. */
  reserve(bytes: number): Scratch {
    if (this.#current && this.length + bytes > this.#current.u8.length) this.flush();
    if (this.#current === undefined || this.#current.u8.length < bytes) this.#change(bytes);
    this.length += bytes;
    return this.#current as Scratch;
  }

  /** Takes back the end of what was reserved last. */
  withdraw(bytes: number): void {
    this.length -= bytes;
  }

  #change(bytes: number): void {
    if (this.#current) this.#keep(this.#current);
    this.recycle();
    const fits = bytes <= BUFFER_BYTES;
    this.#current = (fits ? this.#idle.pop() : undefined) ?? new Scratch(roomFor(bytes));
  }

  /** A frame of a head and `content`, padded with zeros. */
  put(type: number, sequence: number, content: Uint8Array): void {
    const bytes = HEAD_BYTES + padded(content.length);
    const { i32, u8 } = this.reserve(bytes);
    const at = this.length - bytes;
    i32[at >> 2] = headWord(type, bytes);
    i32[(at >> 2) + 1] = sequence;
    u8.set(content, at + HEAD_BYTES);
    u8.fill(0, at + HEAD_BYTES + content.length, at + bytes);
  }

  putFailure(sequence: number, code: string, message: string): void {
    this.put(FAILURE, sequence, new TextEncoder().encode(`${code}\0${message}`));
  }

  flush(): void {
    const buffer = this.#current;
    const bytes = this.length;
    if (buffer === undefined || bytes === 0) return;
    this.#current = undefined;
    this.length = 0;
    this.#socket.write(buffer.buffer.subarray(0, bytes));
    if (this.#leaving.length === 0 && this.#socket.writableLength === 0) {
      this.#keep(buffer);
      return;
    }
    this.#leaving.push({ buffer, bytes });
    this.#leavingBytes += bytes;
  }

  /** The last `writableLength` bytes are still the socket's. */
  recycle(): void {
    const { writableLength } = this.#socket;
    for (let first = this.#leaving[0]; first !== undefined; first = this.#leaving[0]) {
      if (this.#leavingBytes - first.bytes < writableLength) break;
      this.#leaving.shift();
      this.#leavingBytes -= first.bytes;
      this.#keep(first.buffer);
    }
  }

  #keep(buffer: Scratch): void {
    const isKept = buffer.u8.length === BUFFER_BYTES && this.#idle.length < KEPT_BUFFERS;
    if (isKept) this.#idle.push(buffer);
  }
}

function roomFor(bytes: number): number {
  return Math.max(bytes, BUFFER_BYTES);
}

/** What `putFailure` wrote. */
export function readFailure(content: Uint8Array): { code: string; message: string } {
  const text = new TextDecoder().decode(content).replace(/\0+$/, '');
  const end = text.indexOf('\0');
  return { code: text.slice(0, end), message: text.slice(end + 1) };
}
