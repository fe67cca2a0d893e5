import { invariant } from '../../../errors.ts';
import { KEY_BYTES_MAX, pad8 } from '../../../records/layout.ts';
import { type Address, readInteger, type Scratch, writeInteger } from '../../../verbs/index.ts';

/**
 * A request to the skiplist server, as its 64 bytes stand in a mailbox:
 *   0 count 32 | flags 32 (1 reverse, 2 inclusive, 4 from a key)   8 key bytes 64   16 block 64
 * In the client's block stands the key and, behind it, the answer: the slots' words, in order. The
 * reply is how many. The key stays: a server that dies in its answer leaves it to the next one.
 */
export interface ScanMessage {
  count: number;
  reverse: boolean;
  inclusive: boolean;
  isBounded: boolean;
  keyBytes: number;
  block: Address;
}

const REVERSE = 1;
const INCLUSIVE = 2;
const BOUNDED = 4;

/** Where the answer of a request stands in its block. */
export function answerOffset(keyBytes: number): number {
  return pad8(keyBytes);
}

export function encodeScan(message: ScanMessage, words: Scratch, at: number): void {
  const { reverse, inclusive, isBounded } = message;
  const flags = (reverse ? REVERSE : 0) | (inclusive ? INCLUSIVE : 0) | (isBounded ? BOUNDED : 0);
  words.i32[at >> 2] = message.count;
  words.i32[(at >> 2) + 1] = flags;
  writeInteger(words, at + 8, message.keyBytes);
  writeInteger(words, at + 16, message.block);
}

export function decodeScan(words: Scratch, at: number): ScanMessage {
  const count = words.i32[at >> 2];
  const flags = words.i32[(at >> 2) + 1];
  const keyBytes = readInteger(words, at + 8);
  // Each word for itself: what is read while the row's client posts again may be of two requests.
  invariant(count >= 0, `a scan of ${count} keys`);
  invariant(keyBytes <= KEY_BYTES_MAX, `a scan from a key of ${keyBytes} bytes`);
  return {
    count,
    reverse: (flags & REVERSE) !== 0,
    inclusive: (flags & INCLUSIVE) !== 0,
    isBounded: (flags & BOUNDED) !== 0,
    keyBytes,
    block: readInteger(words, at + 16),
  };
}
