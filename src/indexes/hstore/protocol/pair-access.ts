import { hasCode } from '../../../errors.ts';
import { control } from '../../../pool/control.ts';
import type { Pool } from '../../../pool/pool.ts';
import type { Address, Operation } from '../../../verbs/index.ts';
import { PAIR, type PairGeometry } from './geometry.ts';
import { Lease } from './lease.ts';
import { Mailbox } from './mailbox.ts';
import { type PairState, readState } from './pair-state.ts';
import { Replies } from './replies.ts';
import { PATIENCE, type Patience, Waiting } from './waiting.ts';

/** After it found the pool full, a client frees this many blocks before turns allocate again. */
const FREED_BEFORE_ASKING = 64;

/** The words of a pair of servers, as one client reads and writes them. */
export class PairAccess {
  readonly geometry: PairGeometry;
  /** The store's number in the pool's catalog: its blocks carry it. */
  readonly catalog: number;
  readonly pool: Pool;
  readonly mailbox: Mailbox;
  readonly hashLease: Lease;
  /** The requests of this client that wait for an answer. */
  readonly replies: Replies;
  readonly skiplistMailbox: Mailbox;
  readonly skiplistLease: Lease;
  /** Whether a server process has answered this client's last scan. */
  scansAreServed = false;
  patience: Patience = PATIENCE;
  /** Rows in use, as far as this client knows. A server reads no more rows than this. */
  rowsUsed = 1;
  /**
   * As a server: buckets that this client has chained, how often it has doubled the table, and
   * decisions of other servers that it has repeated.
   */
  chained = 0;
  grown = 0;
  repeated = 0;
  /** Whether this client holds the hash server's lease for a repair. */
  holds = false;
  /** Whether an operation of this client, which is the hash server, does more than turns. */
  works = false;
  /** What a server process does from time to time during long work. */
  duties: (() => Operation<void>) | undefined;
  #fullUntilFreed = 0;

  constructor(geometry: PairGeometry, catalog: number, pool: Pool) {
    const { membership } = pool;
    this.geometry = geometry;
    this.catalog = catalog;
    this.pool = pool;
    this.mailbox = new Mailbox(geometry.hashMailbox, membership);
    this.hashLease = new Lease(geometry.base + PAIR.hashLease, membership);
    this.replies = new Replies(geometry, this.hashLease);
    this.skiplistMailbox = new Mailbox(geometry.skiplistMailbox, membership);
    this.skiplistLease = new Lease(geometry.base + PAIR.skiplistLease, membership);
    // Even if servers are elected, a client that scans may withdraw its request from a dead one.
    this.skiplistLease.borrows = true;
  }

  /**
   * Polls the state of the servers until `attempt` has a result. Meanwhile `Waiting` may fence the
   * role's server. Raises SW_TIMEOUT or SW_NO_PRIMARY.
   */
  *waitFor<T>(
    role: 'hash' | 'skiplist',
    what: string,
    attempt: (state: PairState, waiting: Waiting) => Operation<T | undefined>,
  ): Operation<T> {
    const lease = role === 'hash' ? this.hashLease : this.skiplistLease;
    const waiting = new Waiting(lease, this.patience, what);
    for (;;) {
      const state = yield* readState(this);
      const { holder, progress } = role === 'hash' ? state : state.skiplist;
      yield* waiting.poll(holder, progress);
      const result = yield* attempt(state, waiting);
      if (result !== undefined) return result;
      yield* control.pause(waiting.pause);
    }
  }

  /** Shows that this client makes progress in work that takes longer than a holder may stall. */
  *meanwhile(): Operation<void> {
    if (this.holds) yield* this.hashLease.beat();
    if (this.duties) yield* this.duties();
  }

  /**
   * Whether the pool had no memory for a turn, and this client has hardly freed any since. Asking
   * again would read the chunk table several times and find nothing.
   */
  get wasJustFull(): boolean {
    return this.pool.allocator.freed < this.#fullUntilFreed;
  }

  noteFull(): void {
    this.#fullUntilFreed = this.pool.allocator.freed + FREED_BEFORE_ASKING;
  }

  /** A block of `units` lines; undefined when the pool is full. */
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
