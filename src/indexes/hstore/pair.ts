import type { Allocator } from '../../pool/allocator.ts';
import type { Membership } from '../../pool/membership.ts';
import type { Reclamation } from '../../pool/reclamation.ts';
import type { Operation } from '../../verbs/index.ts';
import { PAIR, type PairGeometry } from './geometry.ts';
import { HashServer } from './hash-server.ts';
import { Lease } from './lease.ts';
import { Mailbox, WAITS_MAX } from './mailbox.ts';
import { Replies } from './replies.ts';
import { SkiplistServer, type TableWalk } from './skiplist-server.ts';
import { walkSlots } from './table-walk.ts';

/** Polls without a pause: on one machine the answer comes soon. */
const POLLS_WITHOUT_PAUSE = 32;
/** From so many polls on the answer is known to take long. */
const POLLS_BEFORE_LONG_PAUSES = 2000;

/** How long a client waits for the server's answer. */
export interface Patience {
  /** Polls between two looks whether the server is still there. */
  polls: number;
  /** Polls without any progress of a server that yields after which it is overtaken. */
  stand: number;
  /** Polls without any progress of the server after which it stands still and is fenced. */
  lapse: number;
  /** Polls after which the client gives up. */
  pollsMax: number;
  /** Looks for a row of a mailbox after which it gives up. */
  waitsMax: number;
  /** Pause between two polls, but for the first ones, and after many. */
  microseconds: number;
  longMicroseconds: number;
}

/** Long pauses are what time is told by: 5000 polls take at least 3 seconds on every fabric. */
export const PATIENCE: Patience = {
  ...{ polls: 64, stand: 256, lapse: 5000, pollsMax: 60_000, waitsMax: WAITS_MAX },
  ...{ microseconds: 200, longMicroseconds: 1000 },
};

/** The pause after so many polls. */
export function pauseAfter(poll: number, { microseconds, longMicroseconds }: Patience): number {
  if (poll < POLLS_WITHOUT_PAUSE) return 0;
  return poll < POLLS_BEFORE_LONG_PAUSES ? microseconds : longMicroseconds;
}

/** The same of an operation that looks at nothing but this client's own memory. */
export function localPauseAfter(poll: number, { longMicroseconds }: Patience): number {
  return poll < POLLS_BEFORE_LONG_PAUSES ? 0 : longMicroseconds;
}

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
