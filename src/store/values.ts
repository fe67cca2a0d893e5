import { createRequire } from 'node:module';
import { deserialize, serialize } from 'node:v8';
import { StepwellError } from '../errors.ts';
import type { Request } from '../indexes/substrates/request.ts';
import { CODEC_ASCII, CODEC_BYTES, CODEC_UTF8, decodeFrom } from '../records/codec.ts';
import type { Scratch } from '../verbs/index.ts';
import type { Encoding, Value } from './api.ts';
import { invalid, shown, unsupported } from './arguments.ts';
import type { AnyCodec, AnyOptions } from './open-options.ts';

/** How a store keeps values of any type. `reads` says what `decode` takes. */
export interface StoredFormat {
  readonly name: string;
  readonly reads: 'utf8' | 'bytes';
  encode(value: unknown): Value;
  decode(data: Value): unknown;
}

/** How values are stored and come back. With an encoding, values are the caller's text or bytes. */
export type Format = Encoding | StoredFormat;

/** A bundler leaves this `require` alone: a bundle needs msgpackr installed beside it. */
const HERE = import.meta.url;

const JSON_FORMAT: StoredFormat = {
  name: 'json',
  reads: 'utf8',
  encode: (value) => JSON.stringify(value),
  decode: (text) => JSON.parse(text as string),
};

const V8_FORMAT: StoredFormat = {
  name: 'v8',
  reads: 'bytes',
  encode: (value) => serialize(value),
  decode: (bytes) => deserialize(bytes as Uint8Array),
};

/**
 * The format that the option `values` asks for. Raises SW_INVALID_ARGUMENT, and SW_UNSUPPORTED
 * where msgpackr is not installed.
 */
export function formatOf(values: AnyOptions['values'] = 'auto'): Format {
  if (values === 'auto' || values === 'utf8' || values === 'bytes') return values;
  if (values === 'json') return JSON_FORMAT;
  if (values === 'v8') return V8_FORMAT;
  if (values === 'msgpack') return msgpackFormat();
  return codecFormat(values);
}

function codecFormat(codec: AnyCodec): StoredFormat {
  const isCodec = typeof codec === 'object' && codec !== null;
  if (!isCodec || typeof codec.encode !== 'function' || typeof codec.decode !== 'function') {
    const names = 'auto, utf8, bytes, json, v8, msgpack or a codec { encode, decode }';
    throw invalid(`values are ${names}: ${shown(codec)}`);
  }
  return {
    name: 'codec',
    reads: 'bytes',
    encode: (value) => codec.encode(value),
    decode: (bytes) => codec.decode(bytes as Uint8Array),
  };
}

interface Packr {
  pack(value: unknown): Uint8Array;
  unpack(bytes: Uint8Array): unknown;
}

/** Without msgpackr's records, which only it reads: plain MessagePack. */
function msgpackFormat(): StoredFormat {
  const { Packr } = loadMsgpackr();
  const packr = new Packr({ useRecords: false });
  return {
    name: 'msgpack',
    reads: 'bytes',
    encode: (value) => packr.pack(value),
    decode: (bytes) => packr.unpack(bytes as Uint8Array),
  };
}

function loadMsgpackr(): { Packr: new (options: object) => Packr } {
  try {
    return createRequire(HERE)('msgpackr');
  } catch (cause) {
    const remedy = 'run npm install msgpackr beside the program, or use values: json or v8';
    throw unsupported(`values: 'msgpack' needs the package msgpackr: ${remedy}`, { cause });
  }
}

/** The stored form of the value. Raises SW_INVALID_VALUE. */
export function encoded(value: unknown, format: Format): Value {
  if (typeof format === 'string') return value as Value;
  const { name } = format;
  if (value === undefined) {
    throw refused(`undefined is what an absent key returns: it is no value (${name})`);
  }
  let data: unknown;
  try {
    data = format.encode(value);
  } catch (cause) {
    throw refused(`a value cannot be encoded (${name}): ${messageOf(cause)}`, cause);
  }
  if (typeof data === 'string' || data instanceof Uint8Array) return data;
  throw refused(`a value has no form in ${name}: ${shown(value)}`);
}

/** The value of the request's found record, as a store returns it. Raises SW_UNDECODABLE. */
export function decodeValue(request: Request, as: Format): unknown {
  const { memory: found, contentAt, contentBytes, codec: foundCodec } = request.found;
  return decodeValueAt(found, contentAt, contentBytes, foundCodec, as);
}

/** The value at `at`, without times, in contiguous memory. Raises SW_UNDECODABLE. */
export function decodeValueAt(
  words: Scratch,
  at: number,
  bytes: number,
  stored: number,
  as: Format,
): unknown {
  const encoding = typeof as === 'string' ? as : as.reads;
  let codec = stored;
  if (encoding === 'bytes') codec = CODEC_BYTES;
  else if (encoding === 'utf8' && codec !== CODEC_ASCII) codec = CODEC_UTF8;
  const value = decodeFrom(words, at, bytes, codec);
  return typeof as === 'string' ? value : decoded(value, as);
}

/** Text or bytes of the found record's value. */
export function storedValue(request: Request, as: Encoding): Value {
  return decodeValue(request, as) as Value;
}

function decoded(data: Value, format: StoredFormat): unknown {
  try {
    return format.decode(data);
  } catch (cause) {
    const why = `a value that is stored cannot be decoded (${format.name}): ${messageOf(cause)}`;
    const remedy = 'open the store with the values option of the client that wrote it';
    throw new StepwellError('SW_UNDECODABLE', `${why}; ${remedy}`, { cause });
  }
}

function refused(message: string, cause?: unknown): StepwellError {
  return new StepwellError('SW_INVALID_VALUE', message, { cause });
}

/** The first line: every message is one line. */
function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.split('\n', 1)[0];
}
