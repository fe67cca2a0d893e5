import { type Address, highHalf, lowHalf } from '../../../verbs/index.ts';
import { CANDIDATES_MAX, Request } from '../request.ts';
import { pointerIn, type SlotFormat } from './slot-format.ts';

/** Offsets in a request's words: of the CAS of its slot, of another slot, and of its buckets. */
export const SWAP_AT = 0;
export const OTHER_SWAP_AT = 32;
export const BUCKETS_AT = 64;

/** A request of an index whose buckets, read into the words, are made of slots. */
export class SlotRequest extends Request {
  readonly format: SlotFormat;
  fingerprint = 0;
  /** Offsets in `words` of the slots whose records may have the key. */
  candidateSlots = new Int32Array(CANDIDATES_MAX);
  /** Offset in `words` of the slot that holds the key, is claimed for it, or is awaited. */
  slotAt = 0;

  constructor(wordBytes: number, format: SlotFormat) {
    super(wordBytes);
    this.format = format;
  }

  override get foundAddress(): Address {
    const { format, words, slotAt } = this;
    return pointerIn(format, lowHalf(words, slotAt), highHalf(words, slotAt));
  }

  override ensureCandidates(count: number): void {
    super.ensureCandidates(count);
    const room = this.candidates.at.length;
    if (room > this.candidateSlots.length) this.candidateSlots = new Int32Array(room);
  }
}
