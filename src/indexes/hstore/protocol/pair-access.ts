import { hasCode } from '../../../errors.ts';
import type { Membership } from '../../../pool/clients/membership.ts';
import type { Reclamation } from '../../../pool/clients/reclamation.ts';
import type { Clock } from '../../../pool/clock.ts';
import type { Allocator } from '../../../pool/memory/allocator.ts';
import type { UnwaitedWrites } from '../../../pool/unwaited-writes.ts';
import type { Address, Operation } from '../../../verbs/index.ts';
import { PAIR, type PairGeometry } from './geometry.ts';
import { Lease } from './lease.ts';
import { Mailbox } from './mailbox.ts';
import { Replies } from './replies.ts';
import { PATIENCE, type Patience } from './waiting.ts';

/** What of the pool a client needs to use the words of a pair. */
export interface PoolAccess {
  readonly allocator: Allocator;
  readonly membership: Membership;
  readonly reclamation: Reclamation;
  readonly clock: Clock;
  readonly unwaited: UnwaitedWrites;
}

/** A block of so many lines; undefined when the pool is full. */
export function* allocateUnlessFull(
  { allocator, catalog }: Pick<PairAccess, 'allocator' | 'catalog'>,
  units: number,
): Operation<Address | undefined> {
  try {
    return yield* allocator.allocate(catalog, units);
  } catch (error) {
    if (hasCode(error, 'SW_POOL_FULL')) return undefined;
    throw error;
  }
}

/** The words of a pair of servers, as one client reads and writes them. */
export class PairAccess {
  readonly geometry: PairGeometry;
  /** Number of the store in the pool's catalog: whose blocks these are. */
  readonly catalog: number;
  readonly allocator: Allocator;
  readonly membership: Membership;
  readonly reclamation: Reclamation;
  readonly clock: Clock;
  readonly unwaited: UnwaitedWrites;
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

  constructor(
    geometry: PairGeometry,
    catalog: number,
    { allocator, membership, reclamation, clock, unwaited }: PoolAccess,
  ) {
    this.geometry = geometry;
    this.catalog = catalog;
    this.allocator = allocator;
    this.membership = membership;
    this.reclamation = reclamation;
    this.clock = clock;
    this.unwaited = unwaited;
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
}
