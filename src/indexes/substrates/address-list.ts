import {
  type Address,
  highHalf,
  lowHalf,
  readInteger,
  type Scratch,
  setWord,
  writeInteger,
} from '../../verbs/index.ts';

/**
 * A number and addresses that are written once and never change:
 *
 *    0  the number 32 | check 32: a sum over the addresses and the number
 *    8  the addresses, 8 bytes each
 *
 * A damaged address would lead to other words, or to empty ones, and no reader would notice. So a
 * reader verifies the check before it uses an address.
 */
const ADDRESSES = 8;

export function listBytes(addresses: number): number {
  return ADDRESSES + 8 * addresses;
}

/** Writes a list into an image. */
export function writeList(image: Scratch, number: number, addresses: readonly Address[]): void {
  setWord(image, 0, number, checkOf(number, sumOf(addresses)));
  writeAddresses(image, addresses);
}

/** The same without the first word, which the caller writes last, to publish the list. */
export function writeAddresses(image: Scratch, addresses: readonly Address[]): void {
  addresses.forEach((address, i) => {
    writeInteger(image, ADDRESSES + 8 * i, address);
  });
}

/** The first `count` addresses of a list that begins at offset 0 of the words. */
export function addressesIn(words: Scratch, count: number): Address[] {
  return Array.from({ length: count }, (_, i) => readInteger(words, ADDRESSES + 8 * i));
}

/** Whether the words begin with an intact list of this number and these addresses. */
export function isListOf(words: Scratch, number: number, addresses: readonly Address[]): boolean {
  const check = checkOf(number, sumOf(addresses));
  return lowHalf(words, 0) >>> 0 === number && highHalf(words, 0) === check;
}

/** The check of a list by the sum of its addresses; 32 bits, signed. */
export function checkOf(number: number, sum: number): number {
  return add(sum, number);
}

export function sumOf(addresses: readonly Address[]): number {
  const halves = addresses.flatMap((one) => [one | 0, Math.floor(one / 2 ** 32)]);
  return halves.reduce(add, 0x811c9dc5);
}

/** A step of 32-bit FNV-1a, by words. Each of two words that differ makes another sum. */
function add(sum: number, word: number): number {
  return Math.imul(sum ^ word, 0x01000193);
}
