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
import { RecordIo } from '../../substrates/record-io.ts';
import { Request } from '../../substrates/request.ts';
import { OP_REMOVE_FOUND } from '../protocol/hash-messages.ts';
import { allocateUnlessFull, type PairAccess } from '../protocol/pair-access.ts';
import {
  BUCKET_BYTES,
  isEmpty,
  NEXT,
  recordOf,
  SLOTS,
  signatureOf,
  unitsOfSlot,
  VALID,
} from '../protocol/slot.ts';
import { nextBucketIn } from '../protocol/table-reader.ts';
import { CHAINED_BUCKET_UNITS } from '../protocol/turn.ts';
import type { PostedRequest } from './posted-request.ts';

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
  /** Used again by the next turn: a request's key, and the heads of its candidates. */
  readonly #frames: Request[] = [];

  constructor(pair: PairAccess) {
    this.#pair = pair;
    this.#records = new RecordIo(pair, pair.catalog);
  }

  /** Reads keys, chains, heads; followers share the chain of the first. Raises TableLost. */
  *read(posted: readonly PostedRequest[]): Operation<void> {
    const { geometry } = this.#pair;
    const { generation } = geometry;
    const batch = this.#batch.clear();
    posted.forEach((one, i) => {
      this.#frames[i] ??= new Request(BUCKET_BYTES);
      one.frame = this.#frames[i];
      postKey(one, batch);
    });
    const firsts = posted.filter(({ first }) => first === undefined);
    for (const { chain, request } of firsts) chain.last = geometry.bucketOf(request);
    for (let open = firsts; open.length > 0; batch.clear()) {
      for (const { chain, frame } of open) {
        chain.guard.pass(chain.last);
        batch.read(chain.last, BUCKET_BYTES, frame.words, 0);
      }
      yield batch;
      open = open.filter((one) => takeBucket(one, generation));
    }
    for (const one of firsts) postHeads(one, batch);
    if (batch.length === 0) return;
    yield batch;
    batch.clear();
    for (const { frame, chain } of firsts) {
      const isLong = chain.candidates.length > 0 && frame.longCandidates;
      if (isLong) postLongRecords(frame, batch, SLOT_UNITS_MAX);
    }
    if (batch.length > 0) yield batch;
  }

  /** Notes the slot that has the request's key, the version, and whether the record has expired. */
  match(one: PostedRequest): void {
    const { request, frame, chain } = one;
    const isNamed = request.operation !== OP_REMOVE_FOUND || this.#isKeyOf(one);
    one.match = isNamed ? chain.candidates[firstMatch(frame)] : undefined;
    one.version = one.match ? frame.foundVersion : 0;
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
   * An empty slot for another key, in a new bucket if need be. 'full' when there is no memory for
   * one; 'overtaken' when another server has been at work meanwhile.
   */
  *emptySlot({ chain }: PostedRequest): Operation<Address | 'full' | 'overtaken'> {
    return chain.empty !== 0 ? chain.empty : yield* this.#extend(chain.last);
  }

  /**
   * Links an empty bucket behind the last one, before anything is decided: it may stay empty. A
   * sweep frees a bucket whose server dies before it is linked.
   */
  *#extend(last: Address): Operation<Address | 'full' | 'overtaken'> {
    const { allocator, catalog } = this.#pair;
    const bucket = yield* allocateUnlessFull(this.#pair, CHAINED_BUCKET_UNITS);
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
    allocator.discard(catalog, CHAINED_BUCKET_UNITS, bucket);
    return 'overtaken';
  }
}

/** Adds the READ of the key that a request names. */
function postKey({ request: { block, keyBytes }, frame }: PostedRequest, batch: Batch): void {
  frame.makeRoomForKey(keyBytes);
  frame.keyBytes = keyBytes;
  batch.read(block, valueOffset(keyBytes), frame.outgoing, 0);
}

/** Notes what a bucket that was read says; whether another one is behind it. Raises TableLost. */
function takeBucket({ request, frame, chain }: PostedRequest, generation: number): boolean {
  const { i32 } = frame.words;
  const next = nextBucketIn(frame.words, 0, generation);
  for (let i = 0; i < SLOTS; i++) {
    const slot = chain.last + 8 * i;
    const [low, high] = [i32[2 * i], i32[2 * i + 1]];
    if (!isEmpty(high)) {
      if (high >>> 24 === signatureOf(request.h2)) chain.candidates.push({ slot, low, high });
    } else if (chain.empty === 0) chain.empty = slot;
  }
  if (next === 0) return false;
  chain.last = next;
  return true;
}

/** Adds the READs of the records that may have the key, as far as their values. */
function postHeads({ frame, chain: { candidates } }: PostedRequest, batch: Batch): void {
  if (candidates.length === 0) frame.candidateCount = 0;
  else {
    const headUnits = unitsOf(headBytes(frame.keyBytes));
    frame.ensureCandidates(candidates.length);
    frame.candidateCount = candidates.length;
    candidates.forEach((slot, i) => {
      frame.candidateRecord[i] = recordOf(slot);
      frame.candidateUnits[i] = Math.min(unitsOfSlot(slot.high), headUnits);
    });
    postRecords(frame, batch, SLOT_UNITS_MAX);
  }
}

/** Whether a request has the key of the one that it follows. */
export function follows({ frame, first }: PostedRequest): boolean {
  if (first?.frame.keyBytes !== frame.keyBytes) return false;
  const [ours, theirs] = [frame.outgoing.i32, first.frame.outgoing.i32];
  for (let word = HEADER_BYTES >> 2; word < valueOffset(frame.keyBytes) >> 2; word++) {
    if (ours[word] !== theirs[word]) return false;
  }
  return true;
}
