import { type Address, highHalf, lowHalf, setWord } from '../../../verbs/index.ts';
import { lengthOf } from '../../substrates/claims/slot-format.ts';
import { BUCKETS_AT, SlotRequest } from '../../substrates/claims/slot-request.ts';
import { NODE_BYTES, PLACES, type ShardGeometry } from './geometry.ts';
import type { Segments } from './segments.ts';
import { fingerprintOf, SHARD_SLOTS } from './slot.ts';

/** Chain nodes for which a request has room from the start. */
const NODES_EXPECTED = 2;

/** A request, and the state that a SHARD operation keeps between round trips. */
export class ShardRequest extends SlotRequest {
  /** The segments and version of this attempt, and by place the key's bucket and address. */
  segments: Segments | undefined;
  version = 0;
  readonly buckets = new Int32Array(PLACES);
  readonly addresses = new Float64Array(PLACES);
  /** Offset in `words` of each place's bucket, and of the chain nodes. */
  readonly at = new Int32Array(PLACES);
  readonly nodesAt: number;
  /** Chain nodes of the key's bucket of level 3 that have been read. */
  nodes: Address[] = [];
  /** Whether every entry of the bucket that was searched last is settled (buckets.ts). */
  isSettled = false;
  /** Whether levels 2 and 3 have been read. */
  isWide = false;
  /** Whether the last step of this operation's move has read level 1 into `words`. */
  isRead = false;

  constructor({ bucketBytes }: ShardGeometry) {
    const [level1, level2, level3] = bucketBytes;
    const nodesAt = BUCKETS_AT + level1 + 2 * level2 + level3;
    super(nodesAt + NODES_EXPECTED * NODE_BYTES, SHARD_SLOTS);
    this.at.set([
      BUCKETS_AT,
      BUCKETS_AT + level1,
      BUCKETS_AT + level1 + level2,
      BUCKETS_AT + level1 + 2 * level2,
    ]);
    this.nodesAt = nodesAt;
  }

  /** Takes what an operation needs from the key's hash. */
  begin(): void {
    this.isRead = false;
    this.fingerprint = fingerprintOf(this.hash.h4);
  }

  /** Takes over the record and slot that another request has found for the same key. */
  takeFound(from: ShardRequest): void {
    const slot = from.slotAt;
    this.takeFoundRecord(from, lengthOf(highHalf(from.words, slot)));
    this.slotAt = BUCKETS_AT;
    setWord(this.words, BUCKETS_AT, lowHalf(from.words, slot), highHalf(from.words, slot));
  }

  /** Tests the length first, because setting an array's length is a call into the runtime. */
  forgetNodes(): void {
    if (this.nodes.length > 0) this.nodes.length = 0;
  }

  /** Makes room for one more chain node without losing what has been read. */
  growNodes(): void {
    const needed = this.nodesAt + (this.nodes.length + 1) * NODE_BYTES;
    // Every entry in the words may be a candidate.
    this.ensureCandidates((needed - BUCKETS_AT) >> 3);
    if (needed <= this.words.u8.length) return;
    const read = this.words.u8.slice();
    this.words.ensure(needed);
    this.words.u8.set(read, 0);
  }
}
