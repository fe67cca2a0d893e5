import type { Request } from '../../indexes/substrates/request.ts';
import { CODEC_ASCII, CODEC_BYTES, CODEC_UTF8, decodeFrom } from '../../records/codec.ts';
import { HEADER_BYTES } from '../../records/layout.ts';
import type { Scratch } from '../../verbs/index.ts';
import type { Encoding, Key, Value } from '../api.ts';
import { decoded, type Format } from '../values/value-format.ts';

/** The value of the request's found record, as a store returns it. Raises SW_UNDECODABLE. */
export function decodeValue(request: Request, as: Format): unknown {
  if (typeof as === 'string') return storedValue(request, as);
  return decoded(storedValue(request, as.reads), as);
}

/** The value that stands, without times, in one piece of memory. Raises SW_UNDECODABLE. */
export function decodeValueAt(
  words: Scratch,
  at: number,
  bytes: number,
  codec: number,
  as: Format,
): unknown {
  if (typeof as === 'string') return storedValueAt(words, at, bytes, codec, as);
  return decoded(storedValueAt(words, at, bytes, codec, as.reads), as);
}

/** Text or bytes of the found record's value. */
export function storedValue(request: Request, as: Encoding): Value {
  const { found, contentAt, contentBytes, foundCodec } = request;
  return storedValueAt(found, contentAt, contentBytes, foundCodec, as);
}

function storedValueAt(
  words: Scratch,
  at: number,
  bytes: number,
  stored: number,
  as: Encoding,
): Value {
  let codec = stored;
  if (as === 'bytes') codec = CODEC_BYTES;
  else if (as === 'utf8' && codec !== CODEC_ASCII) codec = CODEC_UTF8;
  return decodeFrom(words, at, bytes, codec);
}

/**
 * The key that a walk met, without the first `skip` bytes; `auto` is a string when the bytes are
 * well-formed UTF-8.
 */
export function decodeKey({ outgoing }: Request, keyBytes: number, as: Encoding, skip = 0): Key {
  return decodeKeyAt(outgoing, HEADER_BYTES + skip, keyBytes - skip, as);
}

export function decodeKeyAt(from: Scratch, at: number, keyBytes: number, as: Encoding): Key {
  const end = at + keyBytes;
  if (as === 'bytes') return from.u8.slice(at, end);
  const text = from.buffer.utf8Slice(at, end);
  if (as === 'utf8' || !text.includes('\ufffd')) return text;
  const bytes = from.u8.slice(at, end);
  return Buffer.from(text).equals(bytes) ? text : bytes;
}
