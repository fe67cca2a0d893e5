import { hasCode } from '../../../errors.ts';
import type { Pool } from '../../../pool/pool.ts';
import type { Address, Operation } from '../../../verbs/index.ts';
import { PAIR, type PairGeometry } from './geometry.ts';
import { Lease } from './lease.ts';
import { Mailbox } from './mailbox.ts';
import { Replies } from './replies.ts';
import { PATIENCE, type Patience } from './waiting.ts';

/** The words of a pair of servers, as one client reads and writes them. */
export class PairAccess {
  readonly geometry: PairGeometry;
  /** Number of the store in the pool's catalog: whose blocks these are. */
  readonly catalog: number;
  readonly pool: Pool;
  readonly mailbox: Mailbox;
  readonly hashLease: Lease;
  /** The requests of this client that wait for an answer. */
  readonly replies: Replies;
  readonly skiplistMailbox: Mailbox;
  readonly skiplistLease: Lease;
  patience: Patience = PATIENCE;
  /** As far as this client knows; a server reads no more rows than this. */
  rowsUsed = 1;
  /** Of this client as a server: buckets chained, and decisions of other servers done again. */
  chained = 0;
  repeated = 0;
  /** Whether this client holds the hash server's lease for a repair. */
  holds = false;
  /** Whether an operation of this client, which is the hash server, does more than turns. */
  works = false;
  /** What a server process does now and then in the midst of long work. */
  duties: (() => Operation<void>) | undefined;
  /** Shows that this client is at work, which takes longer than a holder may stand still. */
  readonly meanwhile = () => this.#meanwhile();

  constructor(geometry: PairGeometry, catalog: number, pool: Pool) {
    const { membership } = pool;
    this.geometry = geometry;
    this.catalog = catalog;
    this.pool = pool;
    this.mailbox = new Mailbox(geometry.hashMailbox, membership);
    this.hashLease = new Lease(geometry.base + PAIR.hashLease, membership);
    this.replies = new Replies(geometry);
    this.skiplistMailbox = new Mailbox(geometry.skiplistMailbox, membership);
    this.skiplistLease = new Lease(geometry.base + PAIR.skiplistLease, membership);
    // A skiplist is private memory: a client that scans may make sure that no server answers.
    this.skiplistLease.borrows = true;
  }

  *#meanwhile(): Operation<void> {
    if (this.holds) yield* this.hashLease.beat();
    if (this.duties) yield* this.duties();
  }

  /** A block of so many lines; undefined when the pool is full. */
  *allocate(units: number): Operation<Address | undefined> {
    try {
      return yield* this.pool.allocator.allocate(this.catalog, units);
    } catch (error) {
      if (hasCode(error, 'SW_POOL_FULL')) return undefined;
      throw error;
    }
  }

  /** Gives back a block of which no other client knows. */
  discard(block: Address, units: number): void {
    this.pool.allocator.discard(this.catalog, units, block);
  }
}
