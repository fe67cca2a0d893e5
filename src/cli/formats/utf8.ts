import { isUtf8 } from 'node:buffer';

/** The text, or undefined if the bytes are not well-formed UTF-8. */
export function strictText(bytes: Uint8Array): string | undefined {
  if (!isUtf8(bytes)) return undefined;
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
}

/** Whether the text has no half of a surrogate pair, for which UTF-8 has no encoding. */
export function isWellFormed(text: string): boolean {
  return !/\p{Surrogate}/u.test(text);
}

const BYTE_ORDER_MARK = '\ufeff';

export function withoutByteOrderMark(text: string): string {
  return text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text;
}
