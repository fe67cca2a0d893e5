import type { Address } from '../../../verbs/index.ts';
import { CycleGuard } from '../../substrates/cycle-guard.ts';
import type { Request } from '../../substrates/request.ts';
import type { HashRequest } from '../protocol/hash-messages.ts';
import type { NamedSlot } from '../protocol/slot.ts';

/** What the server has read of the chain of a key. */
class Chain {
  /** The slots that have the signature of the key. */
  readonly candidates: NamedSlot[] = [];
  /** The first empty slot, 0 for none. */
  empty: Address = 0;
  /** The last bucket. */
  last: Address = 0;
  readonly guard = new CycleGuard();
}

/** A request that waits for its answer, and what the server has read for it. */
export class PostedRequest {
  readonly row: number;
  readonly number: number;
  readonly request: HashRequest;
  /** The request before it in the turn that has the same hash, and most likely the same key. */
  readonly first: PostedRequest | undefined;
  readonly chain: Chain;
  /** Its key, and the heads of the candidates. */
  frame!: Request;
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
    this.chain = first ? first.chain : new Chain();
  }
}
