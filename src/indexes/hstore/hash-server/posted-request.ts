import { type Address, Scratch } from '../../../verbs/index.ts';
import type { HashRequest } from '../protocol/hash-messages.ts';
import { BUCKET_BYTES, type NamedSlot } from '../protocol/slot.ts';

/** A bucket of a chain as the server has read it. */
export class BucketImage {
  address: Address = 0;
  readonly words = new Scratch(BUCKET_BYTES);
}

/** A slot of a chain whose signature is the key's: maybe the key's slot. */
export interface Candidate extends NamedSlot {
  /** Where its head stands among the heads that were read. */
  at: number;
  /** Bytes of it that were read. */
  bytes: number;
}

/** A request that waits for its answer, and what the server has read for it. */
export class PostedRequest {
  readonly row: number;
  readonly number: number;
  readonly request: HashRequest;
  /** The request before it in the turn that has the same hash, and most likely the same key. */
  readonly first: PostedRequest | undefined;
  readonly chain: BucketImage[];
  candidates: Candidate[] = [];
  /** Where the key's image stands among the keys that were read. */
  keyAt = 0;
  /** The slot that has the key, and its record's version, as far as this turn has decided. */
  match: NamedSlot | undefined;
  version = 0;
  /** Whether that record has expired, so that the key counts as absent. */
  isExpired = false;

  constructor(row: number, number: number, request: HashRequest, first: PostedRequest | undefined) {
    this.row = row;
    this.number = number;
    this.request = request;
    this.first = first;
    this.chain = first ? first.chain : [];
  }
}
