import { invariant } from '../../../errors.ts';
import {
  KEY_BYTES_AND_KIND,
  KEY_BYTES_MAX,
  SLOT_UNITS_MAX,
  VALUE_BYTES,
} from '../../../records/layout.ts';
import {
  type Address,
  NULL_ADDRESS,
  readInteger,
  type Scratch,
  setWord,
  writeInteger,
} from '../../../verbs/index.ts';
import { ALWAYS, type Condition, type Outcome, REFUSED } from '../../contract.ts';
import { type Request, recordChecksum } from '../../substrates/request.ts';
import { recordOf } from './slot.ts';

export const OP_WRITE = 1;
export const OP_REMOVE = 2;
/** As OP_REMOVE, from a client without memory: the request's block is the key's own record. */
export const OP_REMOVE_FOUND = 3;
/**
 * Removes the records of one bucket: its address is the request's block, and `h1` and `h2` are the
 * generation of its table. Keeps records that are longer than a slot can say, so all of several
 * blocks, those that expire, and those whose codec is `expectedVersion`.
 */
export const OP_CLEAR = 4;

/** Whether the request's block is not its own: it is a record or a bucket of the table. */
export function borrowsBlock(operation: number): boolean {
  return operation === OP_REMOVE_FOUND || operation === OP_CLEAR;
}

export function isRemoval(operation: number): boolean {
  return operation === OP_REMOVE || operation === OP_REMOVE_FOUND;
}

/**
 * For `modify`: the write is stored only if the key's slot has exactly this word, and its record
 * the expected version. While the client is in its epoch the slot would be enough. But after a
 * request was given up, or its client died, the same block may have been reused for the same key.
 */
export const IF_SLOT = 5;
/** The server had no memory for a bucket: nothing has happened. */
export const OUT_OF_MEMORY = 7;

/**
 * A request to the hash server, as its 64 bytes stand in a mailbox:
 *
 *    0  operation 8 | condition 8 | length in lines 8 | 0
 *    4  key bytes 32
 *    8  block with the key and, of a write, the record 64
 *   16  hash words h1, h2: bucket and signature
 *   24  expected version 32 | version of an insertion 32
 *   32  the record's checksum without its version 32 | value bytes 32 | lengths, codec, flags 32
 *   48  expected slot 64
 */
export class HashRequest {
  operation = 0;
  condition: Condition | typeof IF_SLOT = ALWAYS;
  units = 0;
  keyBytes = 0;
  block: Address = NULL_ADDRESS;
  h1 = 0;
  h2 = 0;
  expectedVersion = 0;
  firstVersion = 0;
  sealedBody = 0;
  valueBytes = 0;
  kind = 0;
  slotLow = 0;
  slotHigh = 0;
}

/** What a client asks about the key of its request. */
export type Asked = Pick<HashRequest, 'operation' | 'condition' | 'expectedVersion'>;
/** The slot that a search found, as it was read. */
export type FoundSlot = Pick<HashRequest, 'slotLow' | 'slotHigh'>;

/**
 * The slot is the one that a search found; only OP_REMOVE_FOUND and IF_SLOT need it. For OP_CLEAR
 * it names the bucket as if that were a record.
 */
export function encodeRequest(
  { operation, condition, expectedVersion }: Asked,
  request: Request & FoundSlot,
  words: Scratch,
  at: number,
): void {
  const { hash, outgoing, slotLow, slotHigh } = request;
  const { i32 } = words;
  const word = at >> 2;
  const units = Math.min(request.record.headUnits, SLOT_UNITS_MAX);
  const isNamed = borrowsBlock(operation);
  const block = isNamed ? recordOf({ low: slotLow, high: slotHigh }) : request.record.block;
  i32[word] = operation | (condition << 8) | (units << 16);
  i32[word + 1] = request.keyBytes;
  writeInteger(words, at + 8, block);
  i32[word + 4] = hash.h1;
  i32[word + 5] = hash.h2;
  i32[word + 6] = expectedVersion;
  i32[word + 7] = request.record.firstVersion;
  i32[word + 8] = request.record.bodyHash;
  i32[word + 9] = outgoing.i32[VALUE_BYTES >> 2];
  i32[word + 10] = outgoing.i32[KEY_BYTES_AND_KIND >> 2];
  i32[word + 11] = 0;
  i32[word + 12] = slotLow;
  i32[word + 13] = slotHigh;
}

/** Decodes a row whose request is complete. Raises SW_POOL_CORRUPT. */
export function decodeRequest(
  words: Scratch,
  at: number,
  request: HashRequest = new HashRequest(),
): HashRequest {
  const { i32 } = words;
  const word = at >> 2;
  const operation = i32[word] & 0xff;
  const keyBytes = i32[word + 1];
  const isKnown = operation === OP_WRITE || operation === OP_CLEAR || isRemoval(operation);
  invariant(isKnown, `a request to do ${operation}`);
  const isKey = keyBytes >= 0 && keyBytes <= KEY_BYTES_MAX;
  invariant(isKey, `a request with a key of ${keyBytes} bytes`);
  request.operation = operation;
  request.condition = ((i32[word] >>> 8) & 0xff) as HashRequest['condition'];
  request.units = (i32[word] >>> 16) & 0xff;
  request.keyBytes = keyBytes;
  request.block = readInteger(words, at + 8);
  request.h1 = i32[word + 4];
  request.h2 = i32[word + 5];
  request.expectedVersion = i32[word + 6] >>> 0;
  request.firstVersion = i32[word + 7] >>> 0;
  request.sealedBody = i32[word + 8];
  request.valueBytes = i32[word + 9];
  request.kind = i32[word + 10];
  request.slotLow = i32[word + 12];
  request.slotHigh = i32[word + 13];
  return request;
}

/** Sets the header that the record of a request has at `version`; see records/layout.ts. */
export function setHeader(header: Int32Array, request: HashRequest, version: number): void {
  const { sealedBody, valueBytes, kind } = request;
  header[0] = recordChecksum(sealedBody, valueBytes, kind, version);
  header[1] = valueBytes;
  header[2] = kind;
  header[3] = version;
}

/** Lower bits of a reply's sequence. The upper ones follow from the committed sequence. */
const SEQUENCE_BITS = 29;

export class HashReply {
  outcome: Outcome | typeof OUT_OF_MEMORY = REFUSED;
  /**
   * Version of the record that was written; in a refusal, of the record that is there. Of OP_CLEAR,
   * how many records it removed.
   */
  version = 0;
  /** The slot as it was, 0 when the key was absent. */
  oldLow = 0;
  oldHigh = 0;
  /** Sequence of the change in the log; 0 for none. */
  sequence = 0;
}

/**
 * A reply, 32 bytes, in a mailbox and in the record of a turn: each word has 32 bits of it and,
 * above, 32 bits of the request's number. So no word returns to an old value, and a CAS by a server
 * that was overtaken fails, however late it comes.
 *
 *    0 version   8 slot as it was, low half   16 high half   24 outcome 3 | sequence 29
 */
export function encodeReply(reply: HashReply, number: number, words: Scratch, at: number): void {
  setWord(words, at, reply.version, number);
  setWord(words, at + 8, reply.oldLow, number);
  setWord(words, at + 16, reply.oldHigh, number);
  setWord(words, at + 24, reply.outcome | (reply.sequence << (32 - SEQUENCE_BITS)), number);
}

/** `committed` is a sequence that was committed at about the time of the reply. */
export function decodeReply(words: Scratch, at: number, committed: number): HashReply {
  const { i32 } = words;
  const word = at >> 2;
  const outcome = (i32[word + 6] & 7) as HashReply['outcome'];
  const changes = outcome !== REFUSED && outcome !== OUT_OF_MEMORY;
  return {
    outcome,
    version: i32[word] >>> 0,
    oldLow: i32[word + 2],
    oldHigh: i32[word + 4],
    sequence: changes ? nearest(i32[word + 6] >>> (32 - SEQUENCE_BITS), committed) : 0,
  };
}

/** The number nearest to `around` that ends in these bits. */
function nearest(bits: number, around: number): number {
  const shift = 32 - SEQUENCE_BITS;
  return around + (((bits - around) << shift) >> shift);
}
