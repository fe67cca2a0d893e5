import type { Key, Value } from '../../store/api.ts';

/** How abstract-level hands data over: text, a Buffer or a Uint8Array. */
export type Format = 'utf8' | 'buffer' | 'view';
export type Data = string | Uint8Array;

/**
 * What the store takes. Text of which a half is missing (a lone surrogate) gets U+FFFD in its
 * place, as it does in other databases behind this interface; the store itself would refuse it.
 */
export function toStore(data: Data): Data {
  return typeof data !== 'string' || data.isWellFormed() ? data : data.toWellFormed();
}

/** What the store handed out, in the format that is wanted; without a copy where it is one. */
export function fromStore(data: Key | Value, format: Format): Data {
  if (format === 'utf8') return typeof data === 'string' ? data : asBuffer(data).toString('utf8');
  if (typeof data === 'string') return Buffer.from(data);
  return format === 'buffer' ? asBuffer(data) : data;
}

function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength);
}
