import { HEADER_BYTES, KEY_BYTES_AND_KIND, pad8, SLOT_UNITS_MAX } from '../../records/layout.ts';
import { Batch, type Operation, Scratch, UNIT_BYTES } from '../../verbs/index.ts';
import type { Candidate, Posted } from './posted.ts';
import { isEmpty, recordOf, SLOTS, signatureOf, unitsOfSlot } from './slot.ts';

/** Bytes from the start of a record to the end of its key. */
function keyEnd(keyBytes: number): number {
  return HEADER_BYTES + pad8(keyBytes);
}

/**
 * Which slot has a request's key. Slots hold a byte of the hash, so the server compares keys by
 * reading records from the pool; those of all requests in one doorbell, after one for the requests'
 * own keys that rides along with the buckets.
 */
export class KeyMatch {
  readonly #keys = new Scratch(4096);
  readonly #heads = new Scratch(4096);
  readonly #batch = new Batch();

  /** Adds the READs of the keys that the requests name. */
  postKeys(posted: readonly Posted[], batch: Batch): void {
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
  *readCandidates(posted: readonly Posted[]): Operation<void> {
    const batch = this.#batch.clear();
    let bytes = 0;
    for (const one of posted) {
      if (one.first) continue;
      gather(one);
      for (const candidate of one.candidates) {
        candidate.at = bytes;
        bytes += keyEnd(one.request.keyBytes);
      }
    }
    if (bytes === 0) return;
    this.#heads.ensure(bytes);
    for (const { request, candidates } of posted) {
      for (const candidate of candidates) {
        // A record may be shorter than the key; what is behind it is another's.
        const record = unitsOfSlot(candidate.high) * UNIT_BYTES;
        candidate.bytes = Math.min(record, keyEnd(request.keyBytes));
        this.#post(candidate, candidate.bytes, batch);
      }
    }
    yield batch;
    yield* this.#readLongKeys(posted, batch.clear());
  }

  /** A key longer than a slot's length field can say is read when its length is known to be it. */
  *#readLongKeys(posted: readonly Posted[], batch: Batch): Operation<void> {
    for (const { request, candidates } of posted) {
      const end = keyEnd(request.keyBytes);
      for (const candidate of candidates) {
        const isLong = unitsOfSlot(candidate.high) === SLOT_UNITS_MAX && candidate.bytes < end;
        if (!isLong || this.#keyBytesOf(candidate) !== request.keyBytes) continue;
        candidate.bytes = end;
        this.#post(candidate, end, batch);
      }
    }
    if (batch.length > 0) yield batch;
  }

  #post(candidate: Candidate, bytes: number, batch: Batch): void {
    batch.read(recordOf(candidate.low, candidate.high), bytes, this.#heads, candidate.at);
  }

  #keyBytesOf({ at }: Candidate): number {
    return this.#heads.i32[(at + KEY_BYTES_AND_KIND) >> 2] & 0xffff;
  }

  /** Notes which candidate has the request's key. */
  match(one: Posted): void {
    one.match = this.#find(one);
    one.version = one.match ? this.#versionOf(one.match) : 0;
  }

  #find({ request, candidates, keyAt }: Posted): Candidate | undefined {
    const end = keyEnd(request.keyBytes);
    return candidates.find(
      (candidate) =>
        candidate.bytes === end &&
        this.#keyBytesOf(candidate) === request.keyBytes &&
        this.#sameKey(keyAt, candidate.at, end),
    );
  }

  /** Whether a request has the key of the one that it follows. */
  follows({ request, keyAt, first }: Posted): boolean {
    if (first?.request.keyBytes !== request.keyBytes) return false;
    const ours = this.#keys.i32;
    for (let at = HEADER_BYTES; at < keyEnd(request.keyBytes); at += 4) {
      if (ours[(keyAt + at) >> 2] !== ours[(first.keyAt + at) >> 2]) return false;
    }
    return true;
  }

  #sameKey(keyAt: number, headAt: number, end: number): boolean {
    const ours = this.#keys.i32;
    const theirs = this.#heads.i32;
    for (let at = HEADER_BYTES; at < end; at += 4) {
      if (ours[(keyAt + at) >> 2] !== theirs[(headAt + at) >> 2]) return false;
    }
    return true;
  }

  /** The version that a candidate's header says. */
  #versionOf({ at }: Candidate): number {
    return this.#heads.i32[(at >> 2) + 3] >>> 0;
  }
}

function gather(one: Posted): void {
  const signature = signatureOf(one.request.h2);
  one.candidates = [];
  for (const { address, words } of one.chain) {
    for (let slot = 0; slot < SLOTS; slot++) {
      const low = words.i32[2 * slot];
      const high = words.i32[2 * slot + 1];
      if (isEmpty(high) || high >>> 24 !== signature) continue;
      one.candidates.push({ slot: address + 8 * slot, low, high, at: 0, bytes: 0 });
    }
  }
}
