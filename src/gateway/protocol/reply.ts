/**
 * Encodes replies in RESP2 or RESP3. Each connection has a writer, which gathers the replies of a
 * pipeline for one write to the socket.
 */

export type ProtocolVersion = 2 | 3;

/** Longer values are sent from where they are instead of being copied. */
const COPY_BYTES_MAX = 16 * 1024;
const BUFFER_BYTES = 16 * 1024;
/** The longest header: a type byte, a 64-bit integer in 20 characters, CRLF. */
const HEADER_BYTES_MAX = 24;
/** Up to these limits, loops beat calls that copy bytes or format numbers. */
const LOOP_BYTES_MAX = 64;
const LOOP_NUMBERS_MAX = 2 ** 31;

const OK = Buffer.from('+OK\r\n');
const PONG = Buffer.from('+PONG\r\n');
const ZERO = Buffer.from(':0\r\n');
const ONE = Buffer.from(':1\r\n');
const NULL_BULK = Buffer.from('$-1\r\n');
const NULL_ARRAY = Buffer.from('*-1\r\n');
const NULL = Buffer.from('_\r\n');

const CR = 13;
const LF = 10;
const DIGIT_ZERO = 48;
const TYPE = {
  integer: 58,
  bulk: 36,
  verbatim: 61,
  array: 42,
  set: 126,
  map: 37,
  push: 62,
} as const;

export interface ReplySink {
  write(bytes: Uint8Array): void;
}

export class ReplyWriter {
  /** Chosen by HELLO; a connection begins with RESP2. */
  protocol: ProtocolVersion = 2;

  /** Complete parts, which precede what is in `#buffer` from `#start` to `#end`. */
  #parts: Uint8Array[] = [];
  #partsLength = 0;
  #buffer = Buffer.allocUnsafeSlow(BUFFER_BYTES);
  #start = 0;
  #end = 0;

  /** Bytes gathered since the last `flush`. */
  get length(): number {
    return this.#partsLength + this.#end - this.#start;
  }

  /** Whether `flush` writes to the sink at most once. */
  get isOnePiece(): boolean {
    return this.#parts.length === 0;
  }

  ok(): void {
    this.#raw(OK);
  }

  pong(): void {
    this.#raw(PONG);
  }

  /** A status line, such as the reply of TYPE. `text` must be ASCII without line breaks. */
  simple(text: string): void {
    this.#raw(Buffer.from(`+${text}\r\n`, 'latin1'));
  }

  /** `text` begins with the error's kind, e.g. `ERR no such thing`. */
  error(text: string): void {
    // A line break would end the reply early, and the rest would pass for another reply.
    this.#raw(Buffer.from(`-${text.replace(/[\r\n]/g, ' ')}\r\n`));
  }

  integer(value: number | bigint): void {
    if (value === 0 || value === 0n) this.#raw(ZERO);
    else if (value === 1 || value === 1n) this.#raw(ONE);
    else this.#header(TYPE.integer, value);
  }

  null(): void {
    this.#raw(this.protocol === 3 ? NULL : NULL_BULK);
  }

  nullArray(): void {
    this.#raw(this.protocol === 3 ? NULL : NULL_ARRAY);
  }

  /** The bytes must not change afterwards: large ones are not copied. */
  bulk(value: Uint8Array | string): void {
    const bytes = typeof value === 'string' ? Buffer.from(value) : value;
    this.#header(TYPE.bulk, bytes.length);
    this.#raw(bytes);
    this.#crlf();
  }

  bulkOrNull(value: Uint8Array | string | undefined): void {
    if (value === undefined) this.null();
    else this.bulk(value);
  }

  /** Text for people: a type of its own in RESP3, a bulk string in RESP2. */
  verbatim(text: string): void {
    const typed = this.protocol === 3;
    const bytes = Buffer.from(typed ? `txt:${text}` : text);
    this.#header(typed ? TYPE.verbatim : TYPE.bulk, bytes.length);
    this.#raw(bytes);
    this.#crlf();
  }

  /** The caller writes `length` elements next. */
  array(length: number): void {
    this.#header(TYPE.array, length);
  }

  /** The caller writes `length` distinct elements next; an array in RESP2. */
  set(length: number): void {
    this.#header(this.protocol === 3 ? TYPE.set : TYPE.array, length);
  }

  /** The caller writes `pairs` keys, each followed by its value; a flat array in RESP2. */
  map(pairs: number): void {
    if (this.protocol === 3) this.#header(TYPE.map, pairs);
    else this.#header(TYPE.array, pairs * 2);
  }

  /** The caller writes `length` elements of a message next; an array in RESP2. */
  push(length: number): void {
    this.#header(this.protocol === 3 ? TYPE.push : TYPE.array, length);
  }

  /** Bytes that are already encoded. They must not change afterwards. */
  encoded(bytes: Uint8Array): void {
    this.#raw(bytes);
  }

  /** Removes what was written beyond `length`. None of it may have been flushed. */
  truncate(length: number): void {
    if (length < this.#partsLength) {
      this.#end = this.#start;
      while (this.#partsLength > length) {
        const part = this.#parts.pop() as Uint8Array;
        this.#partsLength -= part.length;
        const kept = length - this.#partsLength;
        if (kept <= 0) continue;
        this.#parts.push(part.subarray(0, kept));
        this.#partsLength = length;
      }
    }
    this.#end = this.#start + length - this.#partsLength;
  }

  /** Takes everything from another writer, which must not be used again. */
  append(other: ReplyWriter): void {
    other.flush({ write: (bytes) => this.#raw(bytes) });
  }

  /** Passes everything to the sink, which may keep the bytes until `reuse` is called. */
  flush(sink: ReplySink): void {
    for (const part of this.#parts) sink.write(part);
    if (this.#end > this.#start) sink.write(this.#buffer.subarray(this.#start, this.#end));
    this.#start = this.#end;
    this.#parts = [];
    this.#partsLength = 0;
  }

  /** The sink no longer uses the bytes of earlier flushes, so overwrite them. */
  reuse(): void {
    if (this.#start === this.#end) this.#start = this.#end = 0;
  }

  #header(type: number, value: number | bigint): void {
    this.#reserve(HEADER_BYTES_MAX);
    const buffer = this.#buffer;
    buffer[this.#end++] = type;
    if (value >= 0 && value < LOOP_NUMBERS_MAX) this.#digits(Number(value));
    else this.#end += buffer.write(String(value), this.#end, 'latin1');
    buffer[this.#end++] = CR;
    buffer[this.#end++] = LF;
  }

  /** A loop: a string and its copy would take several times as long. */
  #digits(value: number): void {
    let length = 1;
    for (let rest = value; rest >= 10; rest = (rest / 10) | 0) length++;
    let rest = value;
    for (let at = this.#end + length - 1; at >= this.#end; at--) {
      this.#buffer[at] = DIGIT_ZERO + (rest % 10);
      rest = (rest / 10) | 0;
    }
    this.#end += length;
  }

  #crlf(): void {
    this.#reserve(2);
    this.#buffer[this.#end++] = CR;
    this.#buffer[this.#end++] = LF;
  }

  #raw(bytes: Uint8Array): void {
    if (bytes.length > COPY_BYTES_MAX) {
      this.#seal();
      this.#parts.push(bytes);
      this.#partsLength += bytes.length;
      return;
    }
    const { length } = bytes;
    this.#reserve(length);
    const buffer = this.#buffer;
    if (length > LOOP_BYTES_MAX) buffer.set(bytes, this.#end);
    else for (let i = 0; i < length; i++) buffer[this.#end + i] = bytes[i];
    this.#end += length;
  }

  #reserve(length: number): void {
    if (this.#end + length <= this.#buffer.length) return;
    this.#seal();
    this.#buffer = Buffer.allocUnsafeSlow(Math.max(BUFFER_BYTES, length));
    this.#start = this.#end = 0;
  }

  /** Turns the content of the buffer into a part, so that another part can follow. */
  #seal(): void {
    if (this.#end === this.#start) return;
    this.#parts.push(this.#buffer.subarray(this.#start, this.#end));
    this.#partsLength += this.#end - this.#start;
    this.#start = this.#end;
  }
}
