import type { Clock } from '../../../pool/clock.ts';
import { KeyHash } from '../../../records/hash.ts';
import {
  bytesToValue,
  FLAG_TIMED,
  HEADER_BYTES,
  headBytes,
  KEY_BYTES_AND_KIND,
  pad8,
  SLOT_UNITS_MAX,
  TIMES_BYTES,
} from '../../../records/layout.ts';
import { expiresAt } from '../../../records/times.ts';
import { Batch, type Operation, Scratch, UNIT_BYTES } from '../../../verbs/index.ts';
import { OP_REMOVE_FOUND } from '../protocol/hash-messages.ts';
import { paddedBytes } from '../protocol/record-keys.ts';
import { isEmpty, recordOf, SLOTS, signatureOf, unitsOfSlot } from '../protocol/slot.ts';
import type { Candidate, PostedRequest } from './posted-request.ts';

/** Bytes from the start of a record to the end of its key. */
function keyEnd(keyBytes: number): number {
  return HEADER_BYTES + pad8(keyBytes);
}

/**
 * Finds the slot that has a request's key. Slots hold a byte of the hash, so the server compares
 * keys by reading records from the pool: those of all requests in one doorbell, after one for the
 * requests' own keys, which shares the doorbell of the buckets.
 */
export class KeyMatch {
  readonly #keys = new Scratch(4096);
  readonly #heads = new Scratch(4096);
  readonly #batch = new Batch();
  readonly #hash = new KeyHash();
  readonly #seed: number;
  readonly #clock: Clock;

  constructor(seed: number, clock: Clock) {
    this.#seed = seed;
    this.#clock = clock;
  }

  /** Adds the READs of the keys that the requests name. */
  postKeys(posted: readonly PostedRequest[], batch: Batch): void {
    let bytes = 0;
    for (const one of posted) {
      one.keyAt = bytes;
      bytes += keyEnd(one.request.keyBytes);
    }
    this.#keys.ensure(bytes);
    for (const { request, keyAt } of posted) {
      batch.read(request.block, keyEnd(request.keyBytes), this.#keys, keyAt);
    }
  }

  /** Reads the heads of all records that may have the key of a request. */
  *readCandidates(posted: readonly PostedRequest[]): Operation<void> {
    const batch = this.#batch.clear();
    let bytes = 0;
    for (const one of posted) {
      if (one.first) continue;
      one.candidates = candidatesOf(one);
      for (const candidate of one.candidates) {
        candidate.at = bytes;
        bytes += headBytes(one.request.keyBytes);
      }
    }
    if (bytes === 0) return;
    this.#heads.ensure(bytes);
    for (const { request, candidates } of posted) {
      for (const candidate of candidates) {
        // A record may be shorter than the key; what is behind it is another's.
        const record = unitsOfSlot(candidate.high) * UNIT_BYTES;
        this.#post(candidate, Math.min(record, headBytes(request.keyBytes)), batch);
      }
    }
    yield batch;
    yield* this.#readLongKeys(posted, batch.clear());
  }

  /**
   * Where a slot cannot say how long the record is, a long key is read when lengths are equal, and
   * the times behind it.
   */
  *#readLongKeys(posted: readonly PostedRequest[], batch: Batch): Operation<void> {
    for (const { request, candidates } of posted) {
      for (const candidate of candidates) {
        if (unitsOfSlot(candidate.high) !== SLOT_UNITS_MAX) continue;
        if (this.#keyBytesOf(candidate) !== request.keyBytes) continue;
        const bytes = bytesToValue(this.#kindOf(candidate));
        if (candidate.bytes < bytes) this.#post(candidate, bytes, batch);
      }
    }
    if (batch.length > 0) yield batch;
  }

  #post(candidate: Candidate, bytes: number, batch: Batch): void {
    candidate.bytes = bytes;
    batch.read(recordOf(candidate), bytes, this.#heads, candidate.at);
  }

  #keyBytesOf(candidate: Candidate): number {
    return this.#kindOf(candidate) & 0xffff;
  }

  #kindOf({ at }: Candidate): number {
    return this.#heads.i32[(at + KEY_BYTES_AND_KIND) >> 2];
  }

  /** Notes the candidate that has the request's key, its version, and whether it has expired. */
  match(one: PostedRequest): void {
    const { request, candidates, keyAt } = one;
    const end = keyEnd(request.keyBytes);
    const isNamed = request.operation !== OP_REMOVE_FOUND || this.#isKeyOf(one);
    const match = candidates.find(
      (candidate) =>
        isNamed &&
        candidate.bytes >= end &&
        this.#keyBytesOf(candidate) === request.keyBytes &&
        this.#isSame(keyAt, this.#heads, candidate.at, end),
    );
    one.match = match;
    one.version = match ? this.#heads.i32[(match.at >> 2) + 3] >>> 0 : 0;
    one.isExpired = match !== undefined && this.#hasExpired(match);
  }

  #hasExpired(candidate: Candidate): boolean {
    const kind = this.#kindOf(candidate);
    const flags = kind >>> 24;
    if ((flags & FLAG_TIMED) === 0) return false;
    const times = candidate.at + bytesToValue(kind) - TIMES_BYTES;
    return this.#clock.now() >= expiresAt(this.#heads, times, flags);
  }

  /**
   * Whether what the request names is still its key. A record that the request does not own is
   * another key's when its client has died or given up, and the block was re-used.
   */
  #isKeyOf({ request: { keyBytes, h1, h2 }, keyAt }: PostedRequest): boolean {
    const key = new Scratch(paddedBytes(keyBytes));
    const at = keyAt + HEADER_BYTES;
    key.u8.set(this.#keys.u8.subarray(at, at + keyBytes));
    this.#hash.compute(key.i32, 0, keyBytes, this.#seed);
    return this.#hash.h1 === h1 && this.#hash.h2 === h2;
  }

  /** Whether a request has the key of the one that it follows. */
  follows({ request, keyAt, first }: PostedRequest): boolean {
    if (first?.request.keyBytes !== request.keyBytes) return false;
    return this.#isSame(keyAt, this.#keys, first.keyAt, keyEnd(request.keyBytes));
  }

  /** Whether the key of the request at `keyAt` is the one that stands in `others` at `at`. */
  #isSame(keyAt: number, others: Scratch, at: number, end: number): boolean {
    for (let i = HEADER_BYTES; i < end; i += 4) {
      if (this.#keys.i32[(keyAt + i) >> 2] !== others.i32[(at + i) >> 2]) return false;
    }
    return true;
  }
}

/** The slots of a request's chain that have the signature of its key. */
function candidatesOf({ request, chain }: PostedRequest): Candidate[] {
  const signature = signatureOf(request.h2);
  const candidates: Candidate[] = [];
  for (const { address, words } of chain) {
    for (let slot = 0; slot < SLOTS; slot++) {
      const low = words.i32[2 * slot];
      const high = words.i32[2 * slot + 1];
      if (isEmpty(high) || high >>> 24 !== signature) continue;
      candidates.push({ slot: address + 8 * slot, low, high, at: 0, bytes: 0 });
    }
  }
  return candidates;
}
