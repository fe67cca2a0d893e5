import { isUtf8 } from 'node:buffer';
import { readFileSync } from 'node:fs';
import { UsageError } from './failures.ts';
import { type BinaryNotation, decodeStrictly } from './formats/dump.ts';

/**
 * Recovers the bytes of the command line. Node decodes words as UTF-8 and replaces invalid bytes by
 * U+FFFD, so different bytes would become one key. Here an invalid byte becomes the lone surrogate
 * U+DC00 + byte (Python's `surrogateescape`), which no text contains.
 */
const ESCAPE = 0xdc00;
/** Replaces bytes that cannot be recovered. */
const LOST = '\udfff';

/**
 * Corrects words by `raw`, the process's command line, if the system shows it. Package managers
 * (npx, npm run) are programs of Node: they pass on U+FFFD for bytes that are not UTF-8.
 */
export function exactWords(
  words: readonly string[],
  raw: readonly Buffer[] | undefined,
  env: NodeJS.ProcessEnv,
): string[] {
  const last = raw?.slice(-words.length);
  // Options of Node precede the words. A process that set its title has overwritten them.
  const known = last?.length === words.length && words.every((word, i) => `${last[i]}` === word);
  const isHandedOn = env.npm_config_user_agent !== undefined;
  return words.map((word, i) => {
    if (!word.includes('\ufffd')) return word;
    const bytes = known && last ? last[i] : undefined;
    const isLost = bytes === undefined || (isHandedOn && isUtf8(bytes));
    return isLost ? word.replaceAll('\ufffd', LOST) : escaped(bytes);
  });
}

/** The process's command line; undefined if the system does not show it. */
export function startedWith(path = '/proc/self/cmdline'): Buffer[] | undefined {
  try {
    const bytes = readFileSync(path);
    const words: Buffer[] = [];
    for (let at = 0; at < bytes.length; ) {
      const zero = bytes.indexOf(0, at);
      const end = zero < 0 ? bytes.length : zero;
      words.push(bytes.subarray(at, end));
      at = end + 1;
    }
    return words;
  } catch {
    return undefined;
  }
}

/** The text, if it is UTF-8; otherwise every byte beyond ASCII is escaped. */
function escaped(bytes: Buffer): string {
  const text = bytes.toString();
  if (Buffer.from(text).equals(bytes)) return text;
  const escapedByte = (byte: number) => String.fromCharCode(byte < 0x80 ? byte : ESCAPE + byte);
  return Array.from(bytes, escapedByte).join('');
}

/** A key or a value as the shell passed it: text, or bytes if it is not UTF-8. */
export function exactBytes(word: string): string | Uint8Array {
  if (word.isWellFormed()) return word;
  if (word.includes(LOST)) {
    throw new UsageError(
      'a word is not UTF-8, and its bytes are lost: npx and npm run do not hand them on, and ' +
        'not every system tells them; use --hex or --base64, or run node_modules/.bin/stepwell',
    );
  }
  return Uint8Array.from(word, (char) => char.charCodeAt(0) & 0xff);
}

/** Options of commands that take keys. */
export const BINARY_OPTIONS = {
  hex: { about: 'Keys and values are hexadecimal digits, also those written out' },
  base64: { about: 'Keys and values are base64, also those written out' },
} as const;

/** How keys and values are written on the command line and in the output. */
export interface WordForm {
  /** Undefined: as they are. */
  notation: BinaryNotation | undefined;
  read(word: string): string | Uint8Array;
  /** Undefined without a notation: write bytes as they are. */
  write: ((bytes: Uint8Array) => string) | undefined;
}

export function wordForm({ hex, base64 }: { hex: boolean; base64: boolean }): WordForm {
  if (hex && base64) throw new UsageError('--hex and --base64 exclude each other');
  if (!hex && !base64) return { notation: undefined, read: exactBytes, write: undefined };
  const notation = hex ? 'hex' : 'base64';
  return {
    notation,
    read: (word) => decoded(word, notation),
    write: (bytes) => Buffer.from(bytes).toString(notation),
  };
}

function decoded(word: string, notation: BinaryNotation): Uint8Array {
  const bytes = decodeStrictly(word, notation);
  if (bytes !== undefined) return bytes;
  throw new UsageError(`'${word}' is not ${notation === 'hex' ? 'hexadecimal' : 'base64'}`);
}
