import Parser from 'redis-parser';

/** A command's name and its arguments. */
export type Request = readonly Buffer[];

export interface RequestLimits {
  /** Longest argument, such as the longest value that a store holds. */
  bulkBytesMax: number;
  argumentsMax: number;
  /** Longest request, including framing: bounds what a connection can make the gateway hold. */
  requestBytesMax: number;
  inlineBytesMax: number;
  /** How an error names a request that exceeds them. */
  excess: 'invalid' | 'unauthenticated';
}

const MEBIBYTE = 1024 * 1024;

export function requestLimits(requestBytesMax: number): RequestLimits {
  return {
    bulkBytesMax: Math.min(64 * MEBIBYTE, requestBytesMax),
    argumentsMax: 1_048_576,
    requestBytesMax,
    inlineBytesMax: Math.min(64 * 1024, requestBytesMax),
    excess: 'invalid',
  };
}

/**
 * Limits for clients that have not authenticated. Redis allows 10 arguments, but here a whole
 * pipeline is read before its AUTH runs.
 */
export const UNAUTHENTICATED_LIMITS: RequestLimits = {
  bulkBytesMax: 16 * 1024,
  argumentsMax: 1024,
  requestBytesMax: 64 * 1024,
  inlineBytesMax: 64 * 1024,
  excess: 'unauthenticated',
};

const CR = 13;
const LF = 10;
const ASTERISK = 42;
const DOLLAR = 36;
const HYPHEN = 45;
const DIGIT_ZERO = 48;
const DIGITS_MAX = 10;
const HELD_BYTES_MIN = 256;

/** What the next byte belongs to. */
const At = { Start: 0, Count: 1, BulkType: 2, BulkLength: 3, Payload: 4, Inline: 5 } as const;
type At = (typeof At)[keyof typeof At];

/**
 * Cuts a byte stream into requests.
 *
 * redis-parser decodes the arrays, but it was written for replies of a trusted server: it accepts
 * any length, nests, and keeps partial input in buffers that all parsers share. So this class first
 * walks over the framing (never the payloads), checks every length, cuts out inline commands, and
 * passes only whole, valid requests to the parser. It keeps partial input, which is bounded, and
 * reads no byte twice.
 */
export class RequestReader {
  #limits: RequestLimits;
  readonly #parser: Parser;
  #requests: Request[] = [];
  #failure: string | undefined;

  #at: At = At.Start;
  /** How many arguments of the current request have not begun. */
  #arguments = 0;
  /** Missing bytes of the current argument and its CRLF. */
  #payload = 0;
  /** The number in a header line, as far as it has arrived. */
  #number = 0;
  #digits = 0;
  #negative = false;
  #lineEnding = false;

  /** The part of an unfinished request from earlier chunks. */
  #held = Buffer.alloc(0);
  #heldLength = 0;

  constructor(limits: RequestLimits) {
    this.#limits = limits;
    this.#parser = new Parser({
      returnBuffers: true,
      returnReply: (reply) => {
        // Null and empty arrays are not requests.
        if (Array.isArray(reply) && reply.length > 0) this.#requests.push(reply);
      },
      returnError: (error) => this.#fail(error.message),
    });
  }

  set limits(limits: RequestLimits) {
    this.#limits = limits;
  }

  /** Why reading has ended, without the words "Protocol error". */
  get failure(): string | undefined {
    return this.#failure;
  }

  /** Bytes of an unfinished request. */
  get heldBytes(): number {
    return this.#heldLength;
  }

  /** Memory that an unfinished request takes, including room to grow. */
  get memoryBytes(): number {
    return this.#held.length;
  }

  /** Drops the held bytes and reads nothing more. */
  abandon(reason: string): void {
    this.#fail(reason);
    this.#held = Buffer.alloc(0);
    this.#heldLength = 0;
  }

  /**
   * Returns the requests that the next bytes complete. Arguments are views of `chunk` if possible.
   * Reads nothing after a failure.
   */
  push(chunk: Buffer): Request[] {
    let begin = 0;
    let end = 0;
    let at = 0;
    while (at < chunk.length && this.#failure === undefined) {
      if (this.#at === At.Start && chunk[at] !== ASTERISK) {
        this.#decode(chunk, begin, at);
        begin = end = at;
        this.#at = At.Inline;
      }
      if (this.#at === At.Inline) {
        at = this.#readInline(chunk, at);
        begin = end = at;
        continue;
      }
      at = this.#walk(chunk, at);
      if (this.#at !== At.Start) continue;
      end = at;
      // The first request may have begun in an earlier chunk; the others are contiguous.
      if (this.#heldLength > 0) {
        this.#decode(chunk, begin, end);
        begin = end;
      }
    }
    this.#decode(chunk, begin, end);
    if (this.#failure === undefined) this.#hold(chunk, end);
    const requests = this.#requests;
    this.#requests = [];
    return requests;
  }

  /** Walks to the end of the current header line, payload or chunk, and returns it. */
  #walk(chunk: Buffer, at: number): number {
    if (this.#at === At.Payload) {
      const taken = Math.min(this.#payload, chunk.length - at);
      this.#payload -= taken;
      if (this.#payload === 0) this.#nextArgument();
      return at + taken;
    }
    if (this.#at === At.Start || this.#at === At.BulkType) {
      if (this.#at === At.BulkType && chunk[at] !== DOLLAR) {
        this.#fail(`expected '$', got '${String.fromCharCode(chunk[at])}'`);
        return at;
      }
      this.#at = this.#at === At.Start ? At.Count : At.BulkLength;
      this.#number = this.#digits = 0;
      this.#negative = this.#lineEnding = false;
      return at + 1;
    }
    return this.#readNumber(chunk, at);
  }

  #readNumber(chunk: Buffer, from: number): number {
    let at = from;
    while (at < chunk.length) {
      const byte = chunk[at++];
      const digit = byte - DIGIT_ZERO;
      if (this.#lineEnding) {
        if (byte !== LF) break;
        return this.#endLine(at);
      }
      if (digit >= 0 && digit <= 9 && this.#digits < DIGITS_MAX) {
        this.#number = this.#number * 10 + digit;
        this.#digits++;
      } else if (byte === CR && this.#digits > 0) {
        this.#lineEnding = true;
      } else if (byte === HYPHEN && this.#digits === 0 && !this.#negative) {
        this.#negative = true;
      } else {
        break;
      }
      if (at === chunk.length) return at;
    }
    this.#fail(this.#at === At.Count ? 'invalid multibulk length' : 'invalid bulk length');
    return at;
  }

  /** The number of a header line is complete. */
  #endLine(at: number): number {
    if (this.#at === At.Count) {
      this.#arguments = this.#negative ? 0 : this.#number;
      if (this.#arguments > this.#limits.argumentsMax) {
        this.#fail(`${this.#limits.excess} multibulk length`);
      }
      this.#nextArgument();
    } else if (this.#negative) {
      this.#fail('invalid bulk length');
    } else if (this.#number > this.#limits.bulkBytesMax) {
      this.#fail(`${this.#limits.excess} bulk length`);
    } else {
      this.#payload = this.#number + 2;
      this.#at = At.Payload;
    }
    return at;
  }

  #nextArgument(): void {
    this.#at = this.#arguments === 0 ? At.Start : At.BulkType;
    if (this.#arguments > 0) this.#arguments--;
  }

  #readInline(chunk: Buffer, at: number): number {
    const lineEnd = chunk.indexOf(LF, at);
    const end = lineEnd < 0 ? chunk.length : lineEnd + 1;
    if (this.#heldLength + end - at > this.#limits.inlineBytesMax) {
      this.#fail('too big inline request');
    } else if (lineEnd < 0) {
      this.#hold(chunk, at);
    } else {
      this.#acceptInline(splitInline(this.#take(chunk, at, end)));
      this.#at = At.Start;
    }
    return end;
  }

  #acceptInline(words: Buffer[] | undefined): void {
    if (words === undefined) this.#fail('unbalanced quotes in request');
    else if (words.length > 0) this.#requests.push(words);
    // A web page can make a browser POST to a loopback port. Its body must not run as commands.
    if (words !== undefined && /^(?:post|host:)$/i.test(String(words[0] ?? ''))) {
      this.#requests.pop();
      this.#fail('this is not an HTTP server');
    }
  }

  /** Parses whole requests: the held bytes, and `chunk` from `begin` to `end`. */
  #decode(chunk: Buffer, begin: number, end: number): void {
    if (end > begin) this.#parser.execute(this.#take(chunk, begin, end));
  }

  /** Removes and returns the held bytes, followed by `chunk` from `begin` to `end`. */
  #take(chunk: Buffer, begin: number, end: number): Buffer {
    if (this.#heldLength === 0) return chunk.subarray(begin, end);
    this.#append(chunk, begin, end);
    const bytes = this.#held.subarray(0, this.#heldLength);
    // Arguments are views of these bytes, so do not reuse the memory.
    this.#held = Buffer.alloc(0);
    this.#heldLength = 0;
    return bytes;
  }

  #hold(chunk: Buffer, begin: number): void {
    const length = this.#heldLength + chunk.length - begin;
    const payload = this.#at === At.Payload ? this.#payload : 0;
    if (length + payload > this.#limits.requestBytesMax) this.#fail('request is too large');
    else this.#append(chunk, begin, chunk.length);
  }

  /** Doubles the capacity, so bytes are copied twice on average, however small the chunks. */
  #append(chunk: Buffer, begin: number, end: number): void {
    const length = this.#heldLength + end - begin;
    if (length > this.#held.length) {
      const doubled = Math.min(this.#held.length * 2, this.#limits.requestBytesMax);
      const grown = Buffer.allocUnsafe(Math.max(length, doubled, HELD_BYTES_MIN));
      this.#held.copy(grown, 0, 0, this.#heldLength);
      this.#held = grown;
    }
    chunk.copy(this.#held, this.#heldLength, begin, end);
    this.#heldLength = length;
  }

  #fail(reason: string): void {
    this.#failure ??= reason;
  }
}

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', b: '\b', a: '\x07' };

/**
 * One piece of a word, quoted or bare, in text where each character is a byte. No two branches
 * match the same text, so an unclosed quote costs no backtracking.
 */
const PIECE = /"((?:\\.|[^"\\])*)"|'((?:\\'|[^'\\]|\\(?!'))*)'|([^ \t\r\n\v\f"']+)/sy;
const BLANKS = /[ \t\r\n\v\f]*/y;

/**
 * Splits an inline command, as people type it into telnet: words separated by spaces, with "double"
 * quotes (escapes \n \r \t \b \a \" \\ \xHH) and 'single' quotes (escape \'). Returns the words as
 * bytes, or undefined if a quote is not closed or not followed by a space.
 */
export function splitInline(line: Buffer): Buffer[] | undefined {
  const text = line.toString('latin1');
  const words: Buffer[] = [];
  let word = '';
  let at = blanksEnd(text, 0);
  while (at < text.length) {
    PIECE.lastIndex = at;
    const match = PIECE.exec(text);
    if (match === null) return undefined;
    const [piece, double, single, bare] = match;
    at += piece.length;
    word += bare ?? (double === undefined ? single.replaceAll("\\'", "'") : resolveEscapes(double));
    const next = blanksEnd(text, at);
    if (next > at || next === text.length) {
      words.push(Buffer.from(word, 'latin1'));
      word = '';
      at = next;
    } else if (bare === undefined) {
      return undefined;
    }
  }
  return words;
}

function blanksEnd(text: string, at: number): number {
  BLANKS.lastIndex = at;
  return at + (BLANKS.exec(text)?.[0].length ?? 0);
}

function resolveEscapes(text: string): string {
  return text.replace(/\\(?:x([0-9a-fA-F]{2})|(.))/gs, (_, hex?: string, char = '') =>
    hex === undefined ? (ESCAPES[char] ?? char) : String.fromCharCode(Number.parseInt(hex, 16)),
  );
}
