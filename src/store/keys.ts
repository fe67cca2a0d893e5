import { checkKey } from '../records/codec.ts';
import type { Key } from './api.ts';
import type { RangeBounds } from './ordered-api.ts';

const LOOP_CHARACTERS_MAX = 48;

/** A copy of the key's bytes: a scan outlives the call that begins it. */
export function keyBytes(key: Key): Uint8Array {
  checkKey(key);
  return typeof key === 'string' ? textBytes(key) : new Uint8Array(key);
}

/** Encodes short ASCII in a loop: the native encoder takes as long as reading a leaf. */
function textBytes(text: string): Uint8Array {
  const { length } = text;
  if (length > LOOP_CHARACTERS_MAX) return new Uint8Array(Buffer.from(text));
  const bytes = new Uint8Array(length);
  for (let i = 0; i < length; i++) {
    const character = text.charCodeAt(i);
    if (character > 127) return new Uint8Array(Buffer.from(text));
    bytes[i] = character;
  }
  return bytes;
}

/** The keys that begin with `prefix`, itself among them. Raises SW_INVALID_KEY. */
export function prefixRange(prefix: Key): RangeBounds {
  const gte = keyBytes(prefix);
  let end = gte.length;
  while (end > 0 && gte[end - 1] === 0xff) end--;
  if (end === 0) return { gte };
  const lt = gte.slice(0, end);
  lt[end - 1]++;
  return { gte, lt };
}
