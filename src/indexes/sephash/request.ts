import { type Address, highHalf, lowHalf, Scratch } from '../../verbs/index.ts';
import { CANDIDATES_MAX, Request } from '../substrates/request.ts';
import { depthOf, epochOf, isClosed, mainOf, signOfEpoch } from './segments/header.ts';
import type { SegmentView } from './segments/segment-view.ts';

/** Offsets in a request's words. */
export const SWAP_AT = 0;
export const MARK_AT = 24;
/** A word of the FPTable. */
export const ENDS_AT = 32;
/** The segment's header. */
export const HEADER_AT = 40;
export const SLOTS_AT = 64;

/** A request, and the state that a SepHash operation keeps between round trips. */
export class SepHashRequest extends Request {
  /** The key's segment, and the view of it that this attempt relies on. */
  view!: SegmentView;
  metaLow = 0;
  metaHigh = 0;
  slots: Address = 0;
  rangeStart = 0;
  rangeEnd = 0;
  /** Both fingerprints of the key. */
  tag = 0;
  /** The first of the fingerprints that share the key's mark (filter.ts). */
  marked = 0;
  /** Where an append's mark is among the entries of the MainSegment, or -1 when not known. */
  markPosition = -1;
  /** Address of the mark that the entry needs; 0 when that is set. */
  mark: Address = 0;
  /** Entries of the MainSegment. */
  readonly range = new Scratch(1024);
  /** Words of the candidates' entries; those of the CurSegment come first, newest first. */
  candidateLow = new Int32Array(CANDIDATES_MAX);
  candidateHigh = new Int32Array(CANDIDATES_MAX);
  /** How many candidates come from the CurSegment. */
  recent = 0;
  /** The candidate that has the key, or -1. */
  match = -1;
  /** The range of the CurSegment that an append has read. */
  windowStart = 0;
  windowEnd = 0;
  /** The first empty entry, when the whole CurSegment was read. */
  emptySlot = 0;
  /** The segment whose metadata this operation itself has read, and the word. */
  fresh: SegmentView | undefined;
  freshLow = 0;
  freshHigh = 0;
  /** The operation deletes, so its merge may take a block of a larger size class. */
  forDeletion = false;
  /** Whether a CAS that links the record has been posted and not answered. */
  inDoubt = false;

  get main(): Address {
    return mainOf(this.metaLow, this.metaHigh);
  }

  get epoch(): number {
    return epochOf(this.metaHigh);
  }

  get depth(): number {
    return depthOf(this.metaHigh);
  }

  get sign(): number {
    return signOfEpoch(this.epoch);
  }

  /** Whether the segment is closed to this operation, because it brings a record of its own. */
  get isShutOut(): boolean {
    return isClosed(this.metaHigh) && this.record.block !== 0;
  }

  /** Forgets what an earlier operation has read. */
  begin(): void {
    this.tag = this.hash.h2 & 0xffff;
    this.fresh = undefined;
    this.forDeletion = false;
    this.inDoubt = false;
    this.match = -1;
    this.hasMerged = false;
  }

  override get foundAddress(): Address {
    return this.candidates.records[this.match];
  }

  /** All entries of a segment may have the same fingerprints. */
  override ensureCandidates(count: number): void {
    super.ensureCandidates(count);
    const room = this.candidates.at.length;
    if (room === this.candidateLow.length) return;
    this.candidateLow = new Int32Array(room);
    this.candidateHigh = new Int32Array(room);
  }

  /** Whether the header that was read has the metadata that the operation relies on. */
  metaHolds(): boolean {
    const low = lowHalf(this.words, HEADER_AT);
    const high = highHalf(this.words, HEADER_AT);
    if (low === this.metaLow && high === this.metaHigh) return true;
    this.noteFresh(low, high);
    return false;
  }

  noteFresh(low: number, high: number): void {
    this.fresh = this.view;
    this.freshLow = low;
    this.freshHigh = high;
    this.view.note(low, high);
  }
}
