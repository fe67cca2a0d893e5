const ESCAPES: Readonly<Record<number, string>> = {
  7: '\\a',
  8: '\\b',
  9: '\\t',
  10: '\\n',
  13: '\\r',
  34: '\\"',
  92: '\\\\',
};

/** Bytes as Redis shows them to people: in double quotes, what cannot be printed as `\xHH`. */
export function quoted(bytes: Uint8Array): string {
  let text = '"';
  for (const byte of bytes) {
    if (ESCAPES[byte] !== undefined) text += ESCAPES[byte];
    else if (byte >= 32 && byte < 127) text += String.fromCharCode(byte);
    else text += `\\x${byte.toString(16).padStart(2, '0')}`;
  }
  return `${text}"`;
}
