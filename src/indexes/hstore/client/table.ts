import type { Reclamation } from '../../../pool/clients/reclamation.ts';
import type { Allocator } from '../../../pool/memory/allocator.ts';
import type { Pool } from '../../../pool/pool.ts';
import type { Address } from '../../../verbs/index.ts';
import { CycleGuard } from '../../substrates/cycle-guard.ts';
import { RecordIo } from '../../substrates/record-io.ts';
import { Request } from '../../substrates/request.ts';
import { Pair } from '../pair.ts';
import { PairGeometry, pairOf } from '../protocol/geometry.ts';
import type { HStoreShape } from '../protocol/parameters.ts';
import { SLOTS } from '../protocol/slot.ts';
import type { Patience } from '../protocol/waiting.ts';

/** Why an operation had to wait or begin again. */
export type RetryReason =
  | 'waits' // polls for the answer of another client that is the server
  | 'takeovers' // the server was gone or stood still, and this client became it
  | 'fences' // the server stood still, and this client saw to it that it stays so
  | 'degraded' // the table was lost, and the skiplist server was asked instead
  | 'slotChanged'; // a read-modify-write met another writer of its key

/** Offsets in a request's words. */
export const BUCKET_AT = 0;
export const BODY_AT = 64;
export const REPLY_AT = 128;
export const NUMBER_AT = 160;
export const ANSWERED_AT = 168;
export const SWAP_AT = 192;
const WORD_BYTES = 256;

/** A request with what HStore operations remember between their round trips. */
export class HStoreRequest extends Request {
  /** The slot that named the found record, as it was read. */
  slotLow = 0;
  slotHigh = 0;
  /** The slots of the candidates, as low and high halves. */
  readonly slotOf = new Int32Array(2 * SLOTS);
  /** Of the chain of buckets that a search follows. */
  readonly cycleGuard = new CycleGuard();

  constructor() {
    super(WORD_BYTES);
  }
}

/** An HStore index as its operations use it. */
export class HStoreTable {
  readonly shape: HStoreShape;
  readonly root: Address;
  readonly catalog: number;
  readonly pairs: readonly Pair[];
  readonly records: RecordIo;
  readonly allocator: Allocator;
  readonly reclamation: Reclamation;
  readonly retries: Record<RetryReason, number> = {
    waits: 0,
    takeovers: 0,
    fences: 0,
    degraded: 0,
    slotChanged: 0,
  };

  constructor(pool: Pool, shape: HStoreShape, catalog: number, root: Address) {
    const { allocator, reclamation, layout } = pool;
    this.shape = shape;
    this.root = root;
    this.catalog = catalog;
    this.allocator = allocator;
    this.reclamation = reclamation;
    this.records = new RecordIo(pool, catalog);
    this.pairs = Array.from({ length: shape.pairs }, (_, number) => {
      const geometry = new PairGeometry(shape, root, number, layout.parameters.clientsMax);
      return new Pair(geometry, catalog, pool);
    });
  }

  /** The pair that the request's key is of. */
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
