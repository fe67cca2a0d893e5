import { HEADER_BYTES } from '../../records/layout.ts';
import { type Address, NULL_ADDRESS } from '../../verbs/index.ts';
import type { Request } from './request.ts';

/** Words of 32 bits of a record's header. */
export const HEADER_WORDS = HEADER_BYTES >> 2;

/**
 * Where a search found a record, and the words that it read there. As long as they are unchanged,
 * the record is the key's: `near-reads.ts` in the store compares them in this order.
 *
 *   slot     the word that makes the record the key's
 *   mark     another word of the slot's block on which the slot's validity depends, if any: the
 *            checksum of a leaf's entry, the mark of an HStore bucket
 *   record   the block that the slot names, with its header; none if the record is in the table
 *            itself: then the low half of the slot is its version
 */
export class Proof {
  slot: Address = NULL_ADDRESS;
  slotLow = 0;
  slotHigh = 0;
  /** NULL_ADDRESS for none. `markMask` selects the bits of its high half that count. */
  mark: Address = NULL_ADDRESS;
  markLow = 0;
  markHigh = 0;
  markMask = 0;
  /** NULL_ADDRESS for none. */
  record: Address = NULL_ADDRESS;
  readonly header = new Int32Array(HEADER_WORDS);

  /** Begins a proof with the slot. */
  begin(slot: Address, low: number, high: number): void {
    this.slot = slot;
    this.slotLow = low;
    this.slotHigh = high;
    this.mark = NULL_ADDRESS;
    this.record = NULL_ADDRESS;
  }

  addMark(mark: Address, low: number, high: number, mask = -1): void {
    this.mark = mark;
    this.markLow = low;
    this.markHigh = high & mask;
    this.markMask = mask;
  }

  /** Adds the block of the record that the request has just written. */
  addWritten({ record, outgoing }: Request): void {
    this.record = record.written;
    for (let i = 0; i < HEADER_WORDS; i++) this.header[i] = outgoing.i32[i];
  }

  /** Adds the block of the found record, whose header is in `incoming`. */
  addRecord({ foundAddress, found, incoming }: Request): void {
    this.record = foundAddress;
    for (let i = 0; i < HEADER_WORDS; i++) this.header[i] = incoming.i32[(found.at >> 2) + i];
  }
}
