import {
  HEADER_BYTES,
  headBytes,
  SLOT_UNITS_MAX,
  unitsOf,
  valueOffset,
} from '../../../records/layout.ts';
import {
  type Address,
  Batch,
  CAS_BYTES,
  type Operation,
  Scratch,
  swapped,
  writeInteger,
} from '../../../verbs/index.ts';
import { firstMatch, postLongRecords, postRecords } from '../../substrates/claims/candidates.ts';
import { CycleGuard } from '../../substrates/cycle-guard.ts';
import { RecordIo } from '../../substrates/record-io.ts';
import { Request } from '../../substrates/request.ts';
import { type HashRequest, OP_REMOVE_FOUND } from '../protocol/hash-messages.ts';
import type { Unanswered } from '../protocol/mailbox.ts';
import type { PairAccess } from '../protocol/pair-access.ts';
import {
  BUCKET_BYTES,
  isEmpty,
  type NamedSlot,
  NEXT,
  recordOf,
  signatureOf,
  unitsOfSlot,
  VALID,
} from '../protocol/slot.ts';
import { nextBucketIn } from '../protocol/table-reader.ts';
import { CHAINED_BUCKET_UNITS } from '../protocol/turn.ts';

/** A request that waits for its answer, and what the server has read for it. Used turn by turn. */
export class PostedRequest {
  row = 0;
  number = 0;
  request!: HashRequest;
  /** The first bucket of its chain, and the last one that was read. */
  bucket: Address = 0;
  last: Address = 0;
  /** Whether the chain goes on behind it, as far as the first of the key goes. */
  hasMore = false;
  /** The first one of the turn with this hash, and most likely the same key: maybe itself. */
  first: PostedRequest = this;
  /** Its key, and the heads of the candidates. */
  readonly frame = new Request(BUCKET_BYTES);
  /** In `first`: the slots of its chain with the signature, and the first empty one or 0. */
  readonly candidates: NamedSlot[] = [];
  empty: Address = 0;
  readonly guard = new CycleGuard();
  /** The slot that has the key, and its record's version, as far as this turn has decided. */
  match: NamedSlot | undefined;
  version = 0;
  /** Whether that record has expired, so that the key counts as absent. */
  isExpired = false;

  begin(
    { row, number }: Unanswered,
    request: HashRequest,
    bucket: Address,
    first: PostedRequest = this,
  ): void {
    this.row = row;
    this.number = number;
    this.request = request;
    this.bucket = bucket;
    this.last = bucket;
    this.first = first;
    this.hasMore = first === this;
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
 * The chained hash table as its server uses it (section 4.1): finds the slots that have the keys of
 * a turn's requests. Slots hold a byte of the hash, so the server compares keys by reading records
 * from the pool: those of all requests in one doorbell, after one for each bucket of the longest
 * chain. The requests' own keys share the first one.
 */
export class KeyLookup {
  readonly #pair: PairAccess;
  readonly #records: RecordIo;
  readonly #batch = new Batch();

  constructor(pair: PairAccess) {
    this.#pair = pair;
    this.#records = new RecordIo(pair.pool, pair.catalog, pair.geometry.shape.seed);
  }

  /** Reads keys, chains, heads; followers share the chain of the first. Raises TableLost. */
  *read(posted: readonly PostedRequest[]): Operation<void> {
    const { generation } = this.#pair.geometry;
    const batch = this.#batch.clear();
    for (const one of posted) postKey(one, batch);
    for (let open = true; open; batch.clear()) {
      for (const one of posted) if (one.hasMore) postBucket(one, batch);
      yield batch;
      open = false;
      for (const one of posted) {
        if (one.hasMore) takeBucket(one, generation);
        open ||= one.hasMore;
      }
    }
    for (const one of posted) if (one.first === one) postHeads(one, batch);
    if (batch.length === 0) return;
    yield batch;
    batch.clear();
    for (const { frame } of posted) {
      const isLong = frame.candidates.count > 0 && frame.candidates.mayBeLong;
      if (isLong) postLongRecords(frame, batch, SLOT_UNITS_MAX);
    }
    if (batch.length > 0) yield batch;
  }

  /** Notes the slot that has the request's key, the version, and whether the record has expired. */
  match(one: PostedRequest): void {
    const { request, frame } = one;
    const isNamed = request.operation !== OP_REMOVE_FOUND || this.#isKeyOf(one);
    one.match = isNamed ? one.candidates[firstMatch(frame)] : undefined;
    one.version = one.match ? frame.found.version : 0;
    one.isExpired = one.match !== undefined && this.#records.isExpired(frame);
  }

  /**
   * Whether what the request names is still its key. A record that the request does not own is
   * another key's when its client has died or given up, and the block was re-used.
   */
  #isKeyOf({ request: { keyBytes, h1, h2 }, frame }: PostedRequest): boolean {
    frame.adoptKeyAt(frame.outgoing, HEADER_BYTES, keyBytes, this.#pair.geometry.shape.seed);
    return frame.hash.h1 === h1 && frame.hash.h2 === h2;
  }

  /**
   * An empty slot for another key. If need be that of an empty bucket, linked behind the last one
   * before anything is decided: it may stay empty. A sweep frees a bucket whose server dies before.
   * 'full' when there is no memory for one; 'overtaken' when another server has been at work.
   */
  *emptySlot({ empty, last }: PostedRequest): Operation<Address | 'full' | 'overtaken'> {
    if (empty !== 0) return empty;
    const bucket = yield* this.#pair.allocate(CHAINED_BUCKET_UNITS);
    if (bucket === undefined) return 'full';
    const words = new Scratch(BUCKET_BYTES + CAS_BYTES);
    writeInteger(words, NEXT, VALID);
    writeInteger(words, BUCKET_BYTES, VALID);
    writeInteger(words, BUCKET_BYTES + 8, bucket + VALID);
    yield new Batch().write(bucket, BUCKET_BYTES, words, 0).cas(last + NEXT, words, BUCKET_BYTES);
    if (swapped(words, BUCKET_BYTES)) {
      this.#pair.chained++;
      return bucket;
    }
    this.#pair.discard(bucket, CHAINED_BUCKET_UNITS);
    return 'overtaken';
  }
}

/** Adds the READ of the key that a request names. */
function postKey({ request: { block, keyBytes }, frame }: PostedRequest, batch: Batch): void {
  frame.makeRoomForKey(keyBytes);
  frame.keyBytes = keyBytes;
  batch.read(block, valueOffset(keyBytes), frame.outgoing, 0);
}

function postBucket({ last, guard, frame }: PostedRequest, batch: Batch): void {
  guard.pass(last);
  batch.read(last, BUCKET_BYTES, frame.words, 0);
}

/** Notes what a bucket says that was read, and whether one is behind it. Raises TableLost. */
function takeBucket(one: PostedRequest, generation: number): void {
  const { words } = one.frame;
  const { i32 } = words;
  const next = nextBucketIn(words, 0, generation);
  const signature = signatureOf(one.request.h2);
  for (let at = 0; at < NEXT; at += 8) {
    const slot = one.last + at;
    const [low, high] = [i32[at >> 2], i32[(at >> 2) + 1]];
    if (!isEmpty(high)) {
      if (high >>> 24 === signature) one.candidates.push({ slot, low, high });
    } else if (one.empty === 0) one.empty = slot;
  }
  if (next !== 0) one.last = next;
  one.hasMore = next !== 0;
}

/** Adds the READs of the records that may have the key, as far as their values. */
function postHeads({ frame, candidates }: PostedRequest, batch: Batch): void {
  frame.candidates.count = candidates.length;
  if (candidates.length === 0) return;
  const headUnits = unitsOf(headBytes(frame.keyBytes));
  frame.ensureCandidates(candidates.length);
  candidates.forEach((slot, i) => {
    frame.candidates.records[i] = recordOf(slot);
    frame.candidates.units[i] = Math.min(unitsOfSlot(slot.high), headUnits);
  });
  postRecords(frame, batch, SLOT_UNITS_MAX);
}

/** Whether a request has the key of the one that it follows. */
export function follows({ frame, first }: PostedRequest): boolean {
  if (first.frame.keyBytes !== frame.keyBytes) return false;
  const [ours, theirs] = [frame.outgoing.i32, first.frame.outgoing.i32];
  for (let word = HEADER_BYTES >> 2; word < valueOffset(frame.keyBytes) >> 2; word++) {
    if (ours[word] !== theirs[word]) return false;
  }
  return true;
}
