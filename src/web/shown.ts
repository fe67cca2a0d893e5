/** Bytes as people read them; the page puts them into text nodes and nothing else. */
export interface Shown {
  text: string;
  kind: 'text' | 'json' | 'hex';
  /** How many there are, of which the text may be the first. */
  bytes: number;
  isCut: boolean;
}

/** Control characters but line breaks and tabs: what holds them is no text. */
const CONTROL = /(?![\t\n\r])\p{Cc}/u;

/** At most `most` bytes of it, as text where all of those are, else in hexadecimal. */
export function shown(bytes: Uint8Array, most: number): Shown {
  const isCut = bytes.length > most;
  const first = isCut ? bytes.subarray(0, wholeCharacters(bytes, most)) : bytes;
  const about = { bytes: bytes.length, isCut };
  const text = textOf(first);
  if (text === undefined) {
    // Two digits take the place of one byte.
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

/** Where the last character before `most` begins, if it does not end there. */
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
