import {
  FLAG_TIMED,
  HEADER_BYTES,
  headBytes,
  KEY_BYTES_AND_KIND,
  SLOT_UNITS_MAX,
  unitsOf,
  valueOffset,
} from '../../../records/layout.ts';
import {
  type Address,
  Batch,
  CAS_BYTES,
  highHalf,
  NULL_ADDRESS,
  type Operation,
  Scratch,
  swapped,
  writeInteger,
} from '../../../verbs/index.ts';
import { firstMatch, postLongRecords, postRecords } from '../../substrates/claims/candidates.ts';
import { CycleGuard } from '../../substrates/cycle-guard.ts';
import { RecordIo } from '../../substrates/record-io.ts';
import { Request } from '../../substrates/request.ts';
import { bucketIn } from '../protocol/geometry.ts';
import { HashRequest, OP_CLEAR, OP_REMOVE_FOUND } from '../protocol/hash-messages.ts';
import type { Unanswered } from '../protocol/mailbox.ts';
import type { PairAccess } from '../protocol/pair-access.ts';
import { Reused } from '../protocol/reused.ts';
import {
  BUCKET_BYTES,
  isEmpty,
  type NamedSlot,
  NEXT,
  recordOf,
  signatureOf,
  unitsOfSlot,
} from '../protocol/slot.ts';
import { nextBucketIn } from '../protocol/table-reader.ts';
import { CHAINED_BUCKET_UNITS, Decision } from '../protocol/turn.ts';

/** Buckets to read before a bucket is chained. */
const BUCKETS_SAMPLED = 256;
/** If those have this many records on average, the table grows instead. */
const CROWDED = 4;

/** A request in the mailbox, and what the server has read for it. Later turns reuse the object. */
export class PostedRequest {
  readonly request = new HashRequest();
  /** The turn's decision on it. */
  readonly decision = new Decision();
  /** The first bucket of its chain, and the last one that was read. */
  bucket: Address = 0;
  last: Address = 0;
  /** Whether the chain has buckets after `last`. Only in a `first`, which reads for all. */
  hasMore = false;
  /** The turn's first request with this hash, so most likely with this key; may be itself. */
  first: PostedRequest = this;
  /** The request's key, and the record headers of the candidates. */
  readonly frame = new Request(BUCKET_BYTES);
  /** In `first`: the slots of its chain with the signature, and the first empty one or 0. */
  readonly candidates = new Reused(() => ({ slot: NULL_ADDRESS, low: 0, high: 0 }));
  empty: Address = 0;
  readonly guard = new CycleGuard();
  /** The key's slot and its record's version, after the requests that this turn has decided. */
  match: NamedSlot | undefined;
  version = 0;
  /** Whether its record has expired, so that the key counts as absent. */
  isExpired = false;

  /** Call when `request` has been decoded. Without a bucket, nothing is read for it. */
  begin(
    { row, number }: Unanswered,
    bucket: Address | undefined,
    first: PostedRequest = this,
  ): void {
    this.decision.row = row;
    this.decision.number = number;
    this.decision.event = 0;
    this.bucket = bucket ?? NULL_ADDRESS;
    this.last = this.bucket;
    this.first = first;
    this.hasMore = first === this && bucket !== undefined;
    this.frame.candidates.count = 0;
    this.candidates.length = 0;
    this.empty = 0;
    this.guard.begin();
    this.match = undefined;
    this.version = 0;
    this.isExpired = false;
  }
}

/**
 * The chained hash table as its server uses it (section 4.1): finds the slots of the keys of a
 * turn's requests. Slots hold only a byte of the hash, so the server reads records from the pool to
 * compare keys. It reads all chains together, in one doorbell per bucket of the longest chain; the
 * first one also reads the requests' own keys. Another doorbell reads the records.
 */
export class KeyLookup {
  readonly #pair: PairAccess;
  readonly #records: RecordIo;
  readonly #batch = new Batch();

  constructor(pair: PairAccess) {
    this.#pair = pair;
    this.#records = new RecordIo(pair.pool, pair.catalog, pair.geometry.shape.seed);
  }

  /** Reads keys, chains and headers; requests with one `first` share a chain. Raises TableLost. */
  *read(posted: Reused<PostedRequest>): Operation<void> {
    const { generation } = this.#pair.geometry;
    const { length } = posted;
    const batch = this.#batch.clear();
    for (let i = 0; i < length; i++) postKey(posted.at(i), batch);
    for (let open = true; open; batch.clear()) {
      for (let i = 0; i < length; i++) if (posted.at(i).hasMore) postBucket(posted.at(i), batch);
      if (batch.length > 0) yield batch;
      open = false;
      for (let i = 0; i < length; i++) {
        const one = posted.at(i);
        if (one.hasMore) takeBucket(one, generation);
        open ||= one.hasMore;
      }
    }
    for (let i = 0; i < length; i++) {
      const one = posted.at(i);
      if (one.first === one) postHeads(one, batch);
    }
    if (batch.length === 0) return;
    yield batch;
    batch.clear();
    for (let i = 0; i < length; i++) {
      const { frame } = posted.at(i);
      const isLong = frame.candidates.count > 0 && frame.candidates.mayBeLong;
      if (isLong) postLongRecords(frame, batch, SLOT_UNITS_MAX);
    }
    if (batch.length > 0) yield batch;
  }

  /** Notes the slot that has the request's key, the version, and whether the record has expired. */
  match(one: PostedRequest): void {
    const { request, frame } = one;
    const isNamed = request.operation !== OP_REMOVE_FOUND || this.#isKeyOf(one);
    const candidate = isNamed ? firstMatch(frame) : -1;
    one.match = candidate < 0 ? undefined : one.candidates.at(candidate);
    one.version = one.match ? frame.found.version : 0;
    one.isExpired = one.match !== undefined && this.#records.isExpired(frame);
  }

  /** Puts the slots that a request to clear empties into its decision; returns how many. */
  clear({ request, frame, candidates, decision }: PostedRequest): number {
    const { i32 } = frame.incoming;
    const { turnMax } = this.#pair.geometry;
    let count = 0;
    decision.cleared.fill(0);
    for (let i = 0; i < candidates.length && count < turnMax; i++) {
      const kind = i32[(frame.candidates.at[i] + KEY_BYTES_AND_KIND) >> 2];
      const isKept = ((kind >>> 16) & 0xff) === request.expectedVersion;
      // Whether a record has expired, its head does not tell; and one that has does not count.
      if (isKept || ((kind >>> 24) & FLAG_TIMED) !== 0) continue;
      const { slot, low, high } = candidates.at(i);
      const word = (slot % BUCKET_BYTES) >> 2;
      decision.cleared[word] = low;
      decision.cleared[word + 1] = high;
      count++;
    }
    return count;
  }

  /**
   * Whether the block that the request names still holds its key. A request does not own that
   * block, so once its client has died or given up, the block may be re-used for another key.
   */
  #isKeyOf({ request: { keyBytes, h1, h2 }, frame }: PostedRequest): boolean {
    frame.adoptKeyAt(frame.outgoing, HEADER_BYTES, keyBytes, this.#pair.geometry.shape.seed);
    return frame.hash.h1 === h1 && frame.hash.h2 === h2;
  }

  /**
   * An empty slot for a new key. If the chain is full, it first links an empty bucket to its end,
   * which may stay empty. If the server dies before it has linked the bucket, a sweep frees that.
   * 'crowded' when the table should grow instead; 'full' when there is no memory for a bucket;
   * 'overtaken' when another server has linked one.
   */
  *emptySlot(posted: PostedRequest): Operation<Address | 'crowded' | 'full' | 'overtaken'> {
    const { empty, last, request } = posted;
    if (empty !== 0) return empty;
    if (yield* this.#isCrowded(request.h1)) return 'crowded';
    const bucket = yield* this.#pair.allocate(CHAINED_BUCKET_UNITS);
    if (bucket === undefined) return 'full';
    const { mark } = this.#pair.geometry;
    const words = new Scratch(BUCKET_BYTES + CAS_BYTES);
    writeInteger(words, NEXT, mark);
    writeInteger(words, BUCKET_BYTES, mark);
    writeInteger(words, BUCKET_BYTES + 8, bucket + mark);
    yield new Batch().write(bucket, BUCKET_BYTES, words, 0).cas(last + NEXT, words, BUCKET_BYTES);
    if (swapped(words, BUCKET_BYTES)) {
      this.#pair.chained++;
      return bucket;
    }
    this.#pair.discard(bucket, CHAINED_BUCKET_UNITS);
    return 'overtaken';
  }

  /** Whether the table may grow, and the buckets around the full one are crowded, too. */
  *#isCrowded(h1: number): Operation<boolean> {
    const { geometry, wasJustFull } = this.#pair;
    const { buckets, shape } = geometry;
    if (buckets >= shape.bucketsMax || wasJustFull) return false;
    const count = Math.min(BUCKETS_SAMPLED, buckets);
    const bucket = bucketIn(h1, buckets);
    const words = new Scratch(count * BUCKET_BYTES);
    const first = geometry.bucket(bucket - (bucket % count));
    yield this.#batch.clear().read(first, count * BUCKET_BYTES, words, 0);
    let used = 0;
    for (let at = 0; at < count * BUCKET_BYTES; at += BUCKET_BYTES) {
      for (let slot = at; slot < at + NEXT; slot += 8) {
        if (!isEmpty(highHalf(words, slot))) used++;
      }
    }
    return used >= CROWDED * count;
  }
}

function postKey({ request, frame }: PostedRequest, batch: Batch): void {
  const { operation, block, keyBytes } = request;
  frame.makeRoomForKey(keyBytes);
  frame.keyBytes = keyBytes;
  // Its block is a bucket. If the table is another one by now, the bucket may have been freed.
  if (operation === OP_CLEAR) return;
  batch.read(block, valueOffset(keyBytes), frame.outgoing, 0);
}

function postBucket({ last, guard, frame }: PostedRequest, batch: Batch): void {
  guard.pass(last);
  batch.read(last, BUCKET_BYTES, frame.words, 0);
}

/** Notes a bucket's candidates and empty slot, and whether the chain goes on. Raises TableLost. */
function takeBucket(one: PostedRequest, generation: number): void {
  const { words } = one.frame;
  const { i32 } = words;
  const next = nextBucketIn(words, 0, generation);
  const clears = one.request.operation === OP_CLEAR;
  const signature = signatureOf(one.request.h2);
  for (let at = 0; at < NEXT; at += 8) {
    const slot = one.last + at;
    const high = i32[(at >> 2) + 1];
    if (isEmpty(high)) {
      if (one.empty === 0) one.empty = slot;
    } else if (clears ? unitsOfSlot(high) < SLOT_UNITS_MAX : high >>> 24 === signature) {
      const candidate = one.candidates.add();
      candidate.slot = slot;
      candidate.low = i32[at >> 2];
      candidate.high = high;
    }
  }
  one.hasMore = next !== 0 && !clears;
  if (one.hasMore) one.last = next;
}

/** Posts the READs of the records that may have the key, up to where their values begin. */
function postHeads({ frame, candidates }: PostedRequest, batch: Batch): void {
  frame.candidates.count = candidates.length;
  if (candidates.length === 0) return;
  const headUnits = unitsOf(headBytes(frame.keyBytes));
  frame.ensureCandidates(candidates.length);
  for (let i = 0; i < candidates.length; i++) {
    const slot = candidates.at(i);
    frame.candidates.records[i] = recordOf(slot);
    frame.candidates.units[i] = Math.min(unitsOfSlot(slot.high), headUnits);
  }
  postRecords(frame, batch, SLOT_UNITS_MAX);
}

/** Whether a request has the same key as its `first`, not only the same hash. */
export function follows({ frame, first }: PostedRequest): boolean {
  if (first.frame.keyBytes !== frame.keyBytes) return false;
  const [ours, theirs] = [frame.outgoing.i32, first.frame.outgoing.i32];
  for (let word = HEADER_BYTES >> 2; word < valueOffset(frame.keyBytes) >> 2; word++) {
    if (ours[word] !== theirs[word]) return false;
  }
  return true;
}
