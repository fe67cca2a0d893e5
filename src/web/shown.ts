/** Bytes in readable form. The page puts them only into text nodes. */
export interface Shown {
  text: string;
  kind: 'text' | 'json' | 'hex';
  /** Their number. The text may show only the first ones. */
  bytes: number;
  isCut: boolean;
}

/** Control characters other than line breaks and tabs do not occur in text. */
const CONTROL = /(?![\t\n\r])\p{Cc}/u;

/** Shows at most `most` bytes: as text if they are text, otherwise in hexadecimal. */
export function shown(bytes: Uint8Array, most: number): Shown {
  const isCut = bytes.length > most;
  const first = isCut ? bytes.subarray(0, wholeCharacters(bytes, most)) : bytes;
  const about = { bytes: bytes.length, isCut };
  const text = textOf(first);
  if (text === undefined) {
    // Each byte takes two digits.
    const hex = Buffer.from(bytes.subarray(0, most / 2)).toString('hex');
    return {
      text: hex.replace(/..(?=.)/g, '$& '),
      kind: 'hex',
      ...about,
      isCut: bytes.length > most / 2,
    };
  }
  const isJson = !isCut && /^[[{]/.test(text) && isParsable(text);
  return { text, kind: isJson ? 'json' : 'text', ...about };
}

/** `most`, or where the last character before it begins if `most` is within that character. */
function wholeCharacters(bytes: Uint8Array, most: number): number {
  let end = most;
  while (end > most - 4 && end > 0 && (bytes[end] & 0xc0) === 0x80) end--;
  return end;
}

function textOf(bytes: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    return CONTROL.test(text) ? undefined : text;
  } catch {
    return undefined;
  }
}

function isParsable(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
