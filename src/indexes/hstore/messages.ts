import { type Address, readInteger, type Scratch, writeInteger } from '../../verbs/index.ts';
import type { Condition, Outcome } from '../contract.ts';
import { recordChecksum } from '../request.ts';

export const OP_WRITE = 1;
export const OP_REMOVE = 2;

/** A write that is stored only if the key's slot is exactly this one: what `modify` needs. */
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
export interface HashRequest {
  operation: number;
  condition: Condition | typeof IF_SLOT;
  units: number;
  keyBytes: number;
  block: Address;
  h1: number;
  h2: number;
  expectedVersion: number;
  firstVersion: number;
  sealedBody: number;
  valueBytes: number;
  kind: number;
  slotLow: number;
  slotHigh: number;
}

export function encodeRequest(request: HashRequest, words: Scratch, at: number): void {
  const { i32 } = words;
  const word = at >> 2;
  i32[word] = request.operation | (request.condition << 8) | (request.units << 16);
  i32[word + 1] = request.keyBytes;
  writeInteger(words, at + 8, request.block);
  i32[word + 4] = request.h1;
  i32[word + 5] = request.h2;
  i32[word + 6] = request.expectedVersion;
  i32[word + 7] = request.firstVersion;
  i32[word + 8] = request.sealedBody;
  i32[word + 9] = request.valueBytes;
  i32[word + 10] = request.kind;
  i32[word + 11] = 0;
  i32[word + 12] = request.slotLow;
  i32[word + 13] = request.slotHigh;
}

export function decodeRequest(words: Scratch, at: number): HashRequest {
  const { i32 } = words;
  const word = at >> 2;
  return {
    operation: i32[word] & 0xff,
    condition: ((i32[word] >>> 8) & 0xff) as HashRequest['condition'],
    units: (i32[word] >>> 16) & 0xff,
    keyBytes: i32[word + 1],
    block: readInteger(words, at + 8),
    h1: i32[word + 4],
    h2: i32[word + 5],
    expectedVersion: i32[word + 6] >>> 0,
    firstVersion: i32[word + 7] >>> 0,
    sealedBody: i32[word + 8],
    valueBytes: i32[word + 9],
    kind: i32[word + 10],
    slotLow: i32[word + 12],
    slotHigh: i32[word + 13],
  };
}

/** The header that the record of a request has at `version`; see records/layout.ts. */
export function headerOf(request: HashRequest, version: number): readonly number[] {
  const { sealedBody, valueBytes, kind } = request;
  return [recordChecksum(sealedBody, valueBytes, kind, version), valueBytes, kind, version];
}

/**
 * A reply, 32 bytes:
 *   0 outcome 32 | version 32   8 the slot as it was 64   16 sequence in the log 64, 0 for none
 */
export interface HashReply {
  outcome: Outcome | typeof OUT_OF_MEMORY;
  /** Of the record that was written; of a refusal, of the one that is there. */
  version: number;
  oldLow: number;
  oldHigh: number;
  sequence: number;
}

export function encodeReply(reply: HashReply, words: Scratch, at: number): void {
  const { i32 } = words;
  const word = at >> 2;
  i32[word] = reply.outcome;
  i32[word + 1] = reply.version;
  i32[word + 2] = reply.oldLow;
  i32[word + 3] = reply.oldHigh;
  writeInteger(words, at + 16, reply.sequence);
  writeInteger(words, at + 24, 0);
}

export function decodeReply(words: Scratch, at: number): HashReply {
  const { i32 } = words;
  const word = at >> 2;
  return {
    outcome: i32[word] as HashReply['outcome'],
    version: i32[word + 1] >>> 0,
    oldLow: i32[word + 2],
    oldHigh: i32[word + 3],
    sequence: readInteger(words, at + 16),
  };
}
