import { type Address, Scratch } from '../../verbs/index.ts';
import type { HashRequest } from './messages.ts';
import { BUCKET_BYTES } from './slot.ts';

/** A bucket of a chain as the server has read it, and as it has changed it since. */
export class BucketImage {
  address: Address = 0;
  readonly words = new Scratch(BUCKET_BYTES);
}

/** A slot of a chain whose signature is the key's: maybe the key's slot. */
export interface Candidate {
  slot: Address;
  low: number;
  high: number;
  /** Where its head stands among the heads that were read. */
  at: number;
  /** Bytes of it that were read. */
  bytes: number;
}

/** A request that waits for its answer, and what the server has read for it. */
export interface Posted {
  row: number;
  number: number;
  request: HashRequest;
  chain: BucketImage[];
  candidates: Candidate[];
  /** Where the key's image stands among the keys that were read. */
  keyAt: number;
  /** The request of this turn before it that has the same hash, and most likely the same key. */
  first: Posted | undefined;
  /** The slot that has the key, and its record's version, as far as this turn has decided. */
  match: Candidate | undefined;
  version: number;
}

export function postedOf(
  row: number,
  number: number,
  request: HashRequest,
  first: Posted | undefined,
): Posted {
  return {
    row,
    number,
    request,
    chain: first ? first.chain : [],
    candidates: [],
    keyAt: 0,
    first,
    match: undefined,
    version: 0,
  };
}
