import type { Pool } from '../../pool/pool.ts';
import { HashServer, OwnRecords } from './hash-server/hash-server.ts';
import type { PairGeometry } from './protocol/geometry.ts';
import { PairAccess } from './protocol/pair-access.ts';
import { SkiplistCopy } from './skiplist-server/skiplist-image.ts';

/** A pair of servers as one client sees it, and as it serves it when it holds a lease. */
export class Pair extends PairAccess {
  readonly hashServer: HashServer;
  /** Where this client's turns put their records when the pool is full. */
  readonly ownRecords: OwnRecords;
  readonly skiplist: SkiplistCopy;
  /** As the skiplist server: the sequence that was last announced as applied. */
  announced = 0;
  /** As the skiplist server: whether an operation of this client is answering requests. */
  answers = false;

  constructor(geometry: PairGeometry, catalog: number, pool: Pool) {
    super(geometry, catalog, pool);
    this.hashServer = new HashServer(this);
    this.ownRecords = new OwnRecords(this);
    this.skiplist = new SkiplistCopy(this);
  }
}
