import type { Membership } from '../../pool/clients/membership.ts';
import type { Reclamation } from '../../pool/clients/reclamation.ts';
import type { Allocator } from '../../pool/memory/allocator.ts';
import type { Operation } from '../../verbs/index.ts';
import { PAIR, type PairGeometry } from './geometry.ts';
import { HashServer } from './hash-server.ts';
import { Lease } from './lease.ts';
import { Mailbox } from './mailbox.ts';
import { PATIENCE, type Patience } from './patience.ts';
import { Replies } from './replies.ts';
import { SkiplistServer, type TableWalk } from './skiplist-server.ts';
import { walkSlots } from './table-walk.ts';

/** A pair of servers as one client sees it, and as it serves it when it holds a lease. */
export class Pair {
  readonly geometry: PairGeometry;
  readonly catalog: number;
  readonly allocator: Allocator;
  readonly membership: Membership;
  readonly reclamation: Reclamation;
  readonly mailbox: Mailbox;
  readonly hashLease: Lease;
  /** What this client's calls wait for. */
  readonly replies: Replies;
  readonly skiplistMailbox: Mailbox;
  readonly skiplistLease: Lease;
  readonly hashServer: HashServer;
  readonly skiplistServer: SkiplistServer;
  patience: Patience = PATIENCE;
  /** As far as this client knows; a server reads no more rows than this. */
  rowsUsed = 1;
  /** Of this client as a server: buckets chained, and entries of dead servers done again. */
  chained = 0;
  repeated = 0;
  /** As the skiplist server: the sequence that was last announced as applied. */
  announced = 0;
  /** As the skiplist server: whether an operation of this client answers what waits. */
  answers = false;
  /** Whether this client holds the hash server's lease for a repair. */
  holds = false;
  /** Whether an operation of this client, which is the hash server, does more than turns. */
  works = false;
  /** What this client does now and then in the midst of long work. */
  readonly meanwhile = () => this.#meanwhile();
  /** The same of a server process. */
  duties: (() => Operation<void>) | undefined;

  constructor(
    geometry: PairGeometry,
    catalog: number,
    allocator: Allocator,
    membership: Membership,
    reclamation: Reclamation,
  ) {
    this.geometry = geometry;
    this.catalog = catalog;
    this.allocator = allocator;
    this.membership = membership;
    this.reclamation = reclamation;
    this.mailbox = new Mailbox(geometry.hashMailbox, membership);
    this.hashLease = new Lease(geometry.base + PAIR.hashLease, membership);
    this.replies = new Replies(geometry, this.hashLease);
    this.skiplistMailbox = new Mailbox(geometry.skiplistMailbox, membership);
    this.skiplistLease = new Lease(geometry.base + PAIR.skiplistLease, membership);
    // A skiplist is nobody's but its server's: whoever scans may see to it that none answers.
    this.skiplistLease.borrows = true;
    this.hashServer = new HashServer(this);
    const { partitions, seed } = geometry.shape;
    const walkTable: TableWalk = (visit) => walkSlots(this, visit);
    this.skiplistServer = new SkiplistServer(this, partitions, seed, walkTable);
  }

  /** Shows that it is at work, which takes longer than a holder may stand still. */
  *#meanwhile(): Operation<void> {
    if (this.holds) yield* this.hashLease.beat();
    if (this.duties) yield* this.duties();
  }
}
