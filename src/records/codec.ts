import { StepwellError } from '../errors.ts';
import type { Scratch } from '../verbs/index.ts';
import { KEY_BYTES_MAX, VALUE_BYTES_MAX } from './layout.ts';

/** The type of a value, so that it comes back as the type that was stored. */
export const CODEC_BYTES = 0;
export const CODEC_UTF8 = 1;
/** UTF-8 of ASCII characters only, which decodes faster. */
export const CODEC_ASCII = 2;
/** The state of a helper, such as a lease; walks skip it. */
export const CODEC_STATE = 3;

/** Up to here a loop beats the call into the native encoder. */
const LOOP_CHARACTERS_MAX = 48;
const LOOP_BYTES_MAX = 128;
/**
 * Up to this size arrays are on V8's heap; creating and filling one takes half as long as `slice`.
 */
const HEAP_BYTES_MAX = 64;

export type Bytes = string | Uint8Array;

/** An upper bound of the encoded length, for making room before encoding. */
export function bytesBound(data: Bytes): number {
  // Any other type is refused when it is encoded.
  if (typeof data === 'string') return 3 * data.length;
  return data instanceof Uint8Array ? data.length : 0;
}

/**
 * Puts `data` at `offset` of the scratch and returns -1 - length for text beyond ASCII, else
 * length; one number so that the hot path allocates nothing. Runs `check` on everything except
 * short ASCII strings, which are always valid.
 */
export function encodeInto(
  data: Bytes,
  scratch: Scratch,
  offset: number,
  check: (data: unknown) => void,
): number {
  if (typeof data === 'string') {
    const { length } = data;
    if (length <= LOOP_CHARACTERS_MAX) {
      const { u8 } = scratch;
      let i = 0;
      for (; i < length; i++) {
        const character = data.charCodeAt(i);
        if (character > 127) break;
        u8[offset + i] = character;
      }
      if (i === length) return length;
    }
    check(data);
    const bytes = scratch.buffer.write(data, offset, 'utf8');
    return bytes === length ? length : -1 - bytes;
  }
  check(data);
  return encodeBytes(data, scratch, offset);
}

function encodeBytes(data: Uint8Array, scratch: Scratch, offset: number): number {
  const { length } = data;
  if (length > LOOP_BYTES_MAX) {
    scratch.u8.set(data, offset);
  } else {
    const { u8 } = scratch;
    for (let i = 0; i < length; i++) u8[offset + i] = data[i];
  }
  return length;
}

export function decodedLength(encoded: number): number {
  return encoded < 0 ? -1 - encoded : encoded;
}

/** Raises SW_INVALID_KEY. */
export function checkKey(key: unknown): asserts key is Bytes {
  const why = whyInvalid('key', key, KEY_BYTES_MAX);
  if (why !== undefined) throw new StepwellError('SW_INVALID_KEY', why);
}

/** Raises SW_INVALID_VALUE. */
export function checkValue(value: unknown): asserts value is Bytes {
  const why = whyInvalid('value', value, VALUE_BYTES_MAX);
  if (why !== undefined) throw new StepwellError('SW_INVALID_VALUE', why);
}

function whyInvalid(what: string, data: unknown, bytesMax: number): string | undefined {
  if (typeof data === 'string') {
    if (!data.isWellFormed()) return `a ${what} string must be well-formed Unicode`;
  } else if (!(data instanceof Uint8Array)) {
    const why = `a ${what} is a string or bytes, not ${data === null ? 'null' : typeof data}`;
    return what === 'value' ? `${why}; open the store with values: 'json' for any value` : why;
  }
  const bytes = typeof data === 'string' ? utf8Bytes(data, bytesMax) : data.length;
  return bytes > bytesMax ? `a ${what} has at most ${bytesMax} bytes, not ${bytes}` : undefined;
}

/** Exact only where it can matter: a short string need not be measured. */
function utf8Bytes(text: string, bytesMax: number): number {
  return 3 * text.length <= bytesMax ? text.length : Buffer.byteLength(text);
}

/** A copy of `bytes` bytes of the scratch, as the type that the codec says. */
export function decodeFrom(
  scratch: Scratch,
  offset: number,
  bytes: number,
  codec: number,
): string | Uint8Array {
  if (codec === CODEC_ASCII) return scratch.buffer.latin1Slice(offset, offset + bytes);
  if (codec === CODEC_UTF8) return scratch.buffer.utf8Slice(offset, offset + bytes);
  return copyOf(scratch.u8, offset, bytes);
}

function copyOf(u8: Uint8Array, at: number, bytes: number): Uint8Array {
  if (bytes > HEAP_BYTES_MAX) return u8.slice(at, at + bytes);
  const copy = new Uint8Array(bytes);
  for (let i = 0; i < bytes; i++) copy[i] = u8[at + i];
  return copy;
}
