import type { Request } from '../indexes/request.ts';
import { CODEC_BYTES, CODEC_UTF8, decodeFrom } from '../records/codec.ts';
import { HEADER_BYTES } from '../records/layout.ts';
import type { Encoding, Key, Value } from './api.ts';

/** The value of the request's found record. */
export function decodeValue(request: Request, as: Encoding): Value {
  const { found, foundValueAt, foundValueBytes, foundCodec } = request;
  let codec = foundCodec;
  if (as === 'bytes') codec = CODEC_BYTES;
  else if (as === 'utf8' && codec === CODEC_BYTES) codec = CODEC_UTF8;
  return decodeFrom(found, foundValueAt, foundValueBytes, codec);
}

/** The key that a walk met; `auto` is a string when the bytes are well-formed UTF-8. */
export function decodeKey({ outgoing }: Request, keyBytes: number, as: Encoding): Key {
  const end = HEADER_BYTES + keyBytes;
  if (as === 'bytes') return outgoing.u8.slice(HEADER_BYTES, end);
  const text = outgoing.buffer.utf8Slice(HEADER_BYTES, end);
  if (as === 'utf8' || !text.includes('\ufffd')) return text;
  const bytes = outgoing.u8.slice(HEADER_BYTES, end);
  return Buffer.from(text).equals(bytes) ? text : bytes;
}
