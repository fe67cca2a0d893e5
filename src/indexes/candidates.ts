import {
  KEY_BYTES_AND_KIND,
  LINK_BYTES,
  SLOT_UNITS_MAX,
  unitsOf,
  valueOffset,
} from '../records/layout.ts';
import { type Address, type Batch, UNIT_BYTES } from '../verbs/index.ts';
import { Request } from './request.ts';

/**
 * Slots of 8 bytes as hash indexes keep them: low half and lowest bits of the high half are the
 * record's address in 64-byte units, bits 16-23 its length in units, bits 24-31 a fingerprint. What
 * the bits between mean is the index's own matter.
 */
export function lengthOf(high: number): number {
  return (high >>> 16) & 0xff;
}

export function addressInSlot(low: number, high: number, mask: number): Address {
  return ((high & mask) * 2 ** 32 + (low >>> 0)) * UNIT_BYTES;
}

/** A request with the slots in its words that may hold its key: candidates by fingerprint. */
export class SlotRequest extends Request {
  /** Bits of a slot's high half that belong to the address. */
  readonly addressMask: number;
  fingerprint = 0;
  /** Whether a candidate's key may be longer than its slot's length can say. */
  longCandidates = false;
  /** Offset in `words` of the slot that holds the key, or that was claimed for it. */
  slotAt = 0;

  constructor(wordBytes: number, addressMask: number) {
    super(wordBytes);
    this.addressMask = addressMask;
  }
}

/** Adds the READs of the candidates' records. */
export function postCandidates(request: SlotRequest, batch: Batch): Batch {
  const { candidates, candidateAt, candidateCount, incoming, addressMask } = request;
  const { i32 } = request.words;
  let bytes = 0;
  for (let i = 0; i < candidateCount; i++) {
    candidateAt[i] = bytes;
    const units = lengthOf(i32[(candidates[i] >> 2) + 1]);
    bytes += units * UNIT_BYTES;
    if (units < SLOT_UNITS_MAX || longestHead(request) <= units) continue;
    request.longCandidates = true;
    bytes += (longestHead(request) - units) * UNIT_BYTES;
  }
  if (bytes > incoming.u8.length) incoming.ensure(bytes);
  for (let i = 0; i < candidateCount; i++) {
    const word = candidates[i] >> 2;
    const high = i32[word + 1];
    const address = addressInSlot(i32[word], high, addressMask);
    batch.read(address, lengthOf(high) * UNIT_BYTES, incoming, candidateAt[i]);
  }
  return batch;
}

/** Lines of a first block that holds the request's key: more than a slot can say for a long key. */
function longestHead(request: SlotRequest): number {
  return unitsOf(valueOffset(request.keyBytes) + LINK_BYTES);
}

/**
 * Adds the READs of what a slot's length could not express, a key of over 16 KB: one more round
 * trip when it returns true.
 */
export function postLongKeys(request: SlotRequest, batch: Batch): boolean {
  const units = longestHead(request);
  if (units <= SLOT_UNITS_MAX) return false;
  const { candidates, candidateAt, candidateCount, words, incoming, addressMask } = request;
  for (let i = 0; i < candidateCount; i++) {
    const word = candidates[i] >> 2;
    const high = words.i32[word + 1];
    const keyBytes = incoming.i32[(candidateAt[i] + KEY_BYTES_AND_KIND) >> 2] & 0xffff;
    if (lengthOf(high) !== SLOT_UNITS_MAX || keyBytes !== request.keyBytes) continue;
    const address = addressInSlot(words.i32[word], high, addressMask);
    batch.read(address, units * UNIT_BYTES, incoming, candidateAt[i]);
  }
  return batch.length > 0;
}

/** Finds the candidate that has the key; it becomes the found record. */
export function matchCandidate(request: SlotRequest): boolean {
  const { candidates, candidateAt, candidateCount } = request;
  for (let i = 0; i < candidateCount; i++) {
    if (request.matches(candidateAt[i])) {
      request.slotAt = candidates[i];
      return true;
    }
  }
  return false;
}
