import type { Operation } from '../../verbs/index.ts';
import type { Lease } from './lease.ts';
import type { Pair } from './pair.ts';
import { answerScans } from './scan-answers.ts';
import type { HStoreTable } from './table.ts';

export type ServerRole = 'hash' | 'skiplist' | 'both';

/** What one round of a server came to. */
export interface ServedRound {
  /** Leases that this server holds: none while another one is the primary. */
  held: number;
  answered: number;
}

/**
 * The rounds of a server process: for each pair it takes the leases of its roles, or stands by
 * while another process has them, and answers what waits. Between two rounds nothing of the pool
 * is held but the leases, so that epochs can pass.
 */
export class IndexServer {
  readonly #table: HStoreTable;
  readonly #role: ServerRole;
  readonly #held = new Set<Lease>();

  constructor(table: HStoreTable, role: ServerRole) {
    this.#table = table;
    this.#role = role;
  }

  *round(): Operation<ServedRound> {
    let answered = 0;
    for (const pair of this.#table.pairs) {
      if (this.#role !== 'skiplist') answered += yield* this.#hashRound(pair);
      if (this.#role !== 'hash') answered += yield* this.#skiplistRound(pair);
    }
    return { held: this.#held.size, answered };
  }

  /** Turns until nothing waits; the lease is kept. */
  *#hashRound(pair: Pair): Operation<number> {
    const { hashLease, hashServer } = pair;
    if (!(yield* this.#holds(hashLease))) return 0;
    const { answers } = yield* hashServer.turn(false);
    return answers.length;
  }

  *#skiplistRound(pair: Pair): Operation<number> {
    const { skiplistLease } = pair;
    if (!(yield* this.#holds(skiplistLease))) return 0;
    return yield* answerScans(pair);
  }

  /** Takes the lease unless it is held; this client does nothing else with it than serve. */
  *#holds(lease: Lease): Operation<boolean> {
    if (this.#held.has(lease)) return true;
    const holder = yield* lease.holder();
    if (holder !== lease.own && !(yield* lease.take(holder))) return false;
    this.#held.add(lease);
    return true;
  }

  /** Gives up the leases; what waits is answered by the next server. */
  *stop(): Operation<void> {
    for (const { hashLease, skiplistLease } of this.#table.pairs) {
      if (this.#held.delete(hashLease)) yield* hashLease.release();
      if (this.#held.delete(skiplistLease)) yield* skiplistLease.release();
    }
  }
}
