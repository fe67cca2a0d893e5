import { StepwellError } from '../errors.ts';
import type { Scratch } from '../verbs/index.ts';
import { KEY_BYTES_MAX, VALUE_BYTES_MAX } from './layout.ts';

/** What kind of value was put: it comes back as the same kind. */
export const CODEC_BYTES = 0;
export const CODEC_UTF8 = 1;
/** UTF-8 of ASCII characters only, which decodes faster. */
export const CODEC_ASCII = 2;

/** Up to here a loop beats the call into the native encoder. */
const LOOP_CHARACTERS_MAX = 48;
const LOOP_BYTES_MAX = 128;

export type Bytes = string | Uint8Array;

/** An upper bound of the encoded length, for making room before encoding. */
export function bytesBound(data: Bytes): number {
  return typeof data === 'string' ? 3 * data.length : data.length;
}

/**
 * Puts `data` at `offset` of the scratch and returns -1 - length for text beyond ASCII, else length;
 * one number so that the hot path allocates nothing.
 */
export function encodeInto(data: Bytes, scratch: Scratch, offset: number): number {
  if (typeof data !== 'string') return encodeBytes(data, scratch, offset);
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
  const bytes = scratch.buffer.write(data, offset, 'utf8');
  return bytes === length ? length : -1 - bytes;
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

export function checkKey(key: unknown): asserts key is Bytes {
  if (typeof key === 'string') {
    if (key.length <= LOOP_CHARACTERS_MAX) {
      if (isAscii(key)) return;
    }
    if (key.isWellFormed() && Buffer.byteLength(key) <= KEY_BYTES_MAX) return;
    throw new StepwellError(
      'SW_INVALID_KEY',
      key.isWellFormed()
        ? `a key has at most ${KEY_BYTES_MAX} bytes, not ${Buffer.byteLength(key)}`
        : 'a key string must be well-formed Unicode (it has a lone surrogate)',
    );
  }
  if (!(key instanceof Uint8Array)) {
    throw new StepwellError('SW_INVALID_KEY', `a key is a string or bytes, not ${typeof key}`);
  }
  if (key.length > KEY_BYTES_MAX) {
    throw new StepwellError(
      'SW_INVALID_KEY',
      `a key has at most ${KEY_BYTES_MAX} bytes, not ${key.length}`,
    );
  }
}

export function checkValue(value: unknown): asserts value is Bytes {
  if (typeof value === 'string') {
    if (value.length <= LOOP_CHARACTERS_MAX && isAscii(value)) return;
    if (!value.isWellFormed()) {
      throw new StepwellError('SW_INVALID_VALUE', 'a value string must be well-formed Unicode');
    }
  } else if (!(value instanceof Uint8Array)) {
    throw new StepwellError(
      'SW_INVALID_VALUE',
      `a value is a string or bytes, not ${typeof value}`,
    );
  }
  const bytes = typeof value === 'string' ? Buffer.byteLength(value) : value.length;
  if (bytes > VALUE_BYTES_MAX) {
    throw new StepwellError(
      'SW_INVALID_VALUE',
      `a value has at most ${VALUE_BYTES_MAX} bytes, not ${bytes}`,
    );
  }
}

function isAscii(text: string): boolean {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 127) return false;
  return true;
}

/** A copy of `bytes` bytes of the scratch, as the kind of value that was asked for. */
export function decodeFrom(
  scratch: Scratch,
  offset: number,
  bytes: number,
  codec: number,
): string | Uint8Array {
  if (codec === CODEC_ASCII) return scratch.buffer.latin1Slice(offset, offset + bytes);
  if (codec === CODEC_UTF8) return scratch.buffer.utf8Slice(offset, offset + bytes);
  const copy = new Uint8Array(bytes);
  if (bytes > LOOP_BYTES_MAX) {
    copy.set(scratch.u8.subarray(offset, offset + bytes));
  } else {
    const { u8 } = scratch;
    for (let i = 0; i < bytes; i++) copy[i] = u8[offset + i];
  }
  return copy;
}
