import { invariant } from '../../../errors.ts';
import { KEY_BYTES_MAX, pad8 } from '../../../records/layout.ts';
import {
  type Address,
  readInteger,
  type Scratch,
  setWord,
  writeInteger,
} from '../../../verbs/index.ts';

/** The next keys from a key on, or the last ones below it; without a key from the end. */
export interface ScanPart {
  from: Uint8Array | undefined;
  reverse: boolean;
  count: number;
}

/**
 * A request to the skiplist server, as its 64 bytes stand in a mailbox:
 *   0 count 32 | flags 32 (1 reverse, 2 from a key)   8 key bytes 64   16 block 64
 * The client's block has the key and, behind it, the answer: the slots' words, in order. The reply
 * is their number. The key stays, so that the next server can answer if this one dies meanwhile.
 */
export interface ScanMessage {
  count: number;
  reverse: boolean;
  isBounded: boolean;
  keyBytes: number;
  block: Address;
}

const REVERSE = 1;
const BOUNDED = 2;

/** Where the answer of a request stands in its block. */
export function answerOffset(keyBytes: number): number {
  return pad8(keyBytes);
}

export function encodeScan(part: ScanPart, block: Address, words: Scratch, at: number): void {
  const { from, reverse, count } = part;
  setWord(words, at, count, (reverse ? REVERSE : 0) | (from ? BOUNDED : 0));
  writeInteger(words, at + 8, from?.length ?? 0);
  writeInteger(words, at + 16, block);
}

export function decodeScan(words: Scratch, at: number): ScanMessage {
  const count = words.i32[at >> 2];
  const flags = words.i32[(at >> 2) + 1];
  const keyBytes = readInteger(words, at + 8);
  // Checks each word alone, because the words may be of two requests if the client posts again.
  invariant(count >= 0, `a scan of ${count} keys`);
  // The lowest key behind the longest one is a byte longer.
  invariant(keyBytes <= KEY_BYTES_MAX + 1, `a scan from a key of ${keyBytes} bytes`);
  const [reverse, isBounded] = [(flags & REVERSE) !== 0, (flags & BOUNDED) !== 0];
  return { count, reverse, isBounded, keyBytes, block: readInteger(words, at + 16) };
}
