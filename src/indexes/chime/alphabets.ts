/*
 * Keys as fractions, so that one can say how far between two others a key is. Byte for byte they
 * would make steps of very different sizes where few bytes occur: behind "9" comes ":" and not the
 * "0" that goes with the next digit. So a key is taken for a number whose digits are the characters
 * that seem to occur.
 */

/** What characters a byte is of; a set of them is the sum. */
const DECIMAL = 1;
const HEXADECIMAL = 2;
const ALPHANUMERIC = 4;
const PRINTABLE = 8;
const ANY = 16;

/** Bytes that are looked at to choose an alphabet, of each key and before where they differ. */
const LOOKED_AT = 8;

/** Characters that are taken for digits, in ascending order. */
export interface Alphabet {
  readonly radix: number;
  /** Digits that are taken into account; `limit` is the number of different numbers. */
  readonly digits: number;
  readonly limit: number;
  /** `radix ** i`. */
  readonly powers: Float64Array;
  /** By byte: twice its digit; for others, which stand between two digits, twice the upper - 1. */
  readonly codes: Int16Array;
}

function alphabet(digits: number, has: (byte: number) => boolean): Alphabet {
  const codes = new Int16Array(256);
  let radix = 0;
  for (let byte = 0; byte < 256; byte++) codes[byte] = has(byte) ? 2 * radix++ : 2 * radix - 1;
  const powers = Float64Array.from({ length: digits + 1 }, (_, i) => radix ** i);
  return { radix, digits, limit: powers[digits], powers, codes };
}

const CHARACTERS = Uint8Array.from({ length: 256 }, (_, byte) => {
  const text = String.fromCharCode(byte);
  if (/[0-9]/.test(text)) return DECIMAL;
  if (/[a-f]/.test(text)) return HEXADECIMAL;
  if (/[A-Za-z]/.test(text)) return ALPHANUMERIC;
  return byte >= 0x20 && byte < 0x7f ? PRINTABLE : ANY;
});

/** By the highest of the characters that occur: an alphabet of these and all those before them. */
export const ALPHABETS: readonly Alphabet[] = [10, 8, 6, 5, 5].map((digits, i) =>
  alphabet(digits, (byte) => CHARACTERS[byte] < 2 ** (i + 1)),
);

/**
 * The number of the alphabet of keys that go on with these characters, and before them stands what
 * is from `begin` to before `end`: few digits may all be decimal by chance.
 */
export function alphabetOf(
  characters: number,
  before: Uint8Array,
  begin: number,
  end: number,
): number {
  let found = characters;
  const first = Math.max(begin, end - LOOKED_AT);
  for (let i = end - 1; found === DECIMAL && i >= first; i--) {
    if (CHARACTERS[before[i]] > HEXADECIMAL) break;
    found |= CHARACTERS[before[i]];
  }
  return found === 0 ? ALPHABETS.length - 1 : 31 - Math.clz32(found);
}

/** What the first bytes of a key, from `at` to before `end`, are of. */
export function charactersOf(key: Uint8Array, at: number, end: number): number {
  const last = Math.min(end, at + LOOKED_AT);
  let found = 0;
  for (let i = at; i < last; i++) found |= CHARACTERS[key[i]];
  return found;
}

/**
 * A key from `at` to before `end` as a number, from 0 to below the alphabet's limit, that does not
 * order two keys otherwise than they are. What is no digit ends it: as small as what comes before
 * all digits, or as large as anything that begins with the digit below.
 */
export function numberOf(key: Uint8Array, at: number, end: number, alphabet: Alphabet): number {
  const { radix, digits, powers, codes } = alphabet;
  let number = 0;
  for (let i = 0; i < digits; i++) {
    const left = powers[digits - i];
    if (at + i >= end) return number * left;
    const code = codes[key[at + i]];
    if (code < 0) return number * left;
    if ((code & 1) !== 0) return (number * radix + ((code + 1) >> 1)) * powers[digits - i - 1] - 1;
    number = number * radix + (code >> 1);
  }
  return number;
}
