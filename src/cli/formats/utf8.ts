import { isUtf8 } from 'node:buffer';

/** The text of bytes that are well-formed UTF-8, else undefined. Never replaces what it finds. */
export function strictText(bytes: Uint8Array): string | undefined {
  if (!isUtf8(bytes)) return undefined;
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
}

/** Half a surrogate pair, which has no UTF-8 form. */
export function isWellFormed(text: string): boolean {
  return !/\p{Surrogate}/u.test(text);
}

const BYTE_ORDER_MARK = '\ufeff';

export function withoutByteOrderMark(text: string): string {
  return text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text;
}
