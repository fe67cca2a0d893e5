import type { Pool } from '../../../pool/pool.ts';
import { type Address, NULL_ADDRESS } from '../../../verbs/index.ts';
import { CycleGuard } from '../../substrates/cycle-guard.ts';
import { RecordIo } from '../../substrates/record-io.ts';
import { Request } from '../../substrates/request.ts';
import { Pair } from '../pair.ts';
import { pairGeometries, pairOf } from '../protocol/geometry.ts';
import type { FoundSlot } from '../protocol/hash-messages.ts';
import type { HStoreShape } from '../protocol/parameters.ts';
import { recordOf, SLOTS } from '../protocol/slot.ts';
import type { Patience } from '../protocol/waiting.ts';

/** Offsets in a request's words. */
export const BUCKET_AT = 0;
export const BODY_AT = 64;
export const REPLY_AT = 128;
export const NUMBER_AT = 160;
export const ANSWERED_AT = 168;
export const SWAP_AT = 192;
export const LEASE_AT = 224;
const WORD_BYTES = 256;

/** At ordinary load, this many buckets hold about 16 records. */
const SAMPLED_AT_FIRST = 4;

/** A request with what HStore operations remember between their round trips. */
export class HStoreRequest extends Request implements FoundSlot {
  /** The slot that named the found record, as it was read. */
  slotLow = 0;
  slotHigh = 0;
  /** The bucket that was read last, and the slot in it; no bucket if a server named the slot. */
  bucket: Address = NULL_ADDRESS;
  slotIn = 0;
  /** The mark that a bucket of the key's chain must have. */
  mark = 0;
  /** Which slot of its bucket each candidate is. */
  readonly candidateSlot = new Uint8Array(SLOTS);
  /** Guards the walk along the chain of buckets that a search follows. */
  readonly cycleGuard = new CycleGuard();

  constructor() {
    super(WORD_BYTES);
  }

  override get foundAddress(): Address {
    return recordOf({ low: this.slotLow, high: this.slotHigh });
  }
}

/** An HStore index as its operations use it. */
export class HStoreTable {
  readonly shape: HStoreShape;
  readonly catalog: number;
  readonly pairs: readonly Pair[];
  readonly records: RecordIo;
  readonly pool: Pool;
  /** Buckets to read at each place of a sample; see parts.ts. */
  sampledBuckets = SAMPLED_AT_FIRST;
  /** Why operations had to wait or begin again, and how often. */
  readonly retries = {
    waits: 0, // polls for the answer of another client that is the server
    takeovers: 0, // the server was gone or stood still, and this client became it
    fences: 0, // the server made no progress, and this client fenced it
    degraded: 0, // the table was lost, and the skiplist server was asked instead
    slotChanged: 0, // a read-modify-write met another writer of its key
  };

  constructor(pool: Pool, shape: HStoreShape, catalog: number, root: Address) {
    const { clientsMax } = pool.layout.parameters;
    this.shape = shape;

    this.catalog = catalog;
    this.pool = pool;
    this.records = new RecordIo(pool, catalog, shape.seed);
    const geometries = pairGeometries(shape, root, clientsMax);
    this.pairs = geometries.map((geometry) => new Pair(geometry, catalog, pool));
  }

  pairOf({ hash }: Request): Pair {
    return this.pairs[pairOf(this.shape, hash)];
  }

  set patience(patience: Patience) {
    for (const pair of this.pairs) pair.patience = patience;
  }

  newRequest(): HStoreRequest {
    return new HStoreRequest();
  }
}
