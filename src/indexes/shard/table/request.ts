import { type Address, highHalf, lowHalf, setWord } from '../../../verbs/index.ts';
import { lengthOf } from '../../substrates/claims/slot-format.ts';
import { BUCKETS_AT, SlotRequest } from '../../substrates/claims/slot-request.ts';
import { NODE_BYTES, PLACES, type ShardGeometry } from './geometry.ts';
import type { Segments } from './segments.ts';
import { fingerprintOf, SHARD_SLOTS } from './slot.ts';

/** Chain nodes for which a request has room from the start. */
const NODES_EXPECTED = 2;

/** A request with what SHARD operations remember between their round trips. */
export class ShardRequest extends SlotRequest {
  /** The segments and version of this attempt, and by place the key's bucket and address. */
  segments: Segments | undefined;
  version = 0;
  readonly buckets = new Int32Array(PLACES);
  readonly addresses = new Float64Array(PLACES);
  /** Where the bucket of each place stands in `words`, and where chain nodes begin. */
  readonly at = new Int32Array(PLACES);
  readonly nodesAt: number;
  /** Chain nodes of the key's bucket of level 3 that have been read. */
  nodes: Address[] = [];
  /** Whether every entry of the bucket that was looked through last is settled. */
  isSettled = false;
  /** Whether levels 2 and 3 have been read. */
  isWide = false;
  /** Whether level 1 stands in `words` as it is after a move that the operation has made. */
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

  /** Takes over what another request has found for the same key: record and slot. */
  takeFound(from: ShardRequest): void {
    const slot = from.slotAt;
    this.takeFoundRecord(from, lengthOf(highHalf(from.words, slot)));
    this.slotAt = BUCKETS_AT;
    setWord(this.words, BUCKETS_AT, lowHalf(from.words, slot), highHalf(from.words, slot));
  }

  /** Tests the length first, because setting an array's length is a call of its own. */
  forgetNodes(): void {
    if (this.nodes.length > 0) this.nodes.length = 0;
  }

  /** Makes room for one more chain node without losing what has been read. */
  growNodes(): void {
    const needed = this.nodesAt + (this.nodes.length + 1) * NODE_BYTES;
    // All that stands in the words may be candidates.
    this.ensureCandidates((needed - BUCKETS_AT) >> 3);
    if (needed <= this.words.u8.length) return;
    const read = this.words.u8.slice();
    this.words.ensure(needed);
    this.words.u8.set(read, 0);
  }
}
