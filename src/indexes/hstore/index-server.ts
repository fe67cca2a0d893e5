import { StepwellError } from '../../errors.ts';
import type { Operation } from '../../verbs/index.ts';
import { type Candidacy, type Coordinator, PoolCoordinator } from './candidacy.ts';
import type { HStoreTable } from './client/table.ts';
import type { Turn } from './hash-server/turn-worker.ts';
import type { Pair } from './pair.ts';
import { type Holder, type Lease, Stillness } from './protocol/lease.ts';
import { readLease, readState, readTableState } from './protocol/pair-state.ts';
import { hasOtherSkiplistServer, repair } from './recovery/rebuild-table.ts';
import { answerScans } from './skiplist-server/answer-scans.ts';

export type ServerRole = 'hash' | 'skiplist' | 'both';

/** What one round of a server came to. */
export interface ServedRound {
  /** Leases that this server holds: none while another one is the primary. */
  held: number;
  answered: number;
}

export interface ServerSettings {
  role: ServerRole;
  /** Those that it stands for, counted from 0; all of the store when left out. */
  pairs?: readonly number[];
  coordinator?: Coordinator;
  /** Of what roles are called in an election: the pool and its store. */
  name?: string;
  /** Milliseconds of a clock that never goes back. */
  now?: () => number;
  /** Milliseconds after which a primary that stands still is fenced. */
  lapse?: number;
}

export const LAPSE_MS = 3000;
/** Turns that follow one another at once: each reads what the next one needs. */
const TURNS_IN_A_ROUND = 16;
/** A server that waits for nothing else beats so often. */
const BEAT_MS = 100;
const NEVER = () => 0;

/** What a candidate sees; `isBusy` when somebody else has to hold the lease first. */
interface Look {
  holder: Holder;
  progress: number;
  isBusy: boolean;
}

/** One role of one pair, for which this process stands. */
class Role {
  readonly lease: Lease;
  readonly candidacy: Candidacy;
  readonly stillness = new Stillness();
  readonly look: () => Operation<Look>;
  /** Whether it has memory of its own for what it does; when that was looked at. */
  readonly provides: (() => Operation<boolean>) | undefined;
  isProvided: boolean;
  providedAt = Number.NEGATIVE_INFINITY;
  held: number | undefined;
  beatAt = 0;

  constructor(lease: Lease, candidacy: Candidacy, look: Role['look'], provides?: Role['provides']) {
    this.lease = lease;
    this.candidacy = candidacy;
    this.look = look;
    this.provides = provides;
    this.isProvided = provides === undefined;
  }
}

interface Served {
  pair: Pair;
  hash: Role | undefined;
  skiplist: Role | undefined;
}

/**
 * The rounds of a server process: for each pair it takes the leases of its roles, or stands by
 * while another process has them, and answers what waits. Between two rounds nothing of the pool
 * is held but the leases, so that epochs can pass.
 */
export class IndexServer {
  readonly #now: () => number;
  readonly #lapse: number;
  readonly #served: readonly Served[];

  constructor(table: HStoreTable, settings: ServerSettings) {
    const { role, coordinator = new PoolCoordinator(), name = 'store' } = settings;
    this.#now = settings.now ?? NEVER;
    this.#lapse = settings.lapse ?? LAPSE_MS;
    this.#served = table.pairs.flatMap((pair, i) => {
      if (settings.pairs?.includes(i) === false) return [];
      const stand = (what: string) => coordinator.stand(`${name}/${i}/${what}`);
      const { hashLease, skiplistLease } = pair;
      const hash =
        role === 'skiplist'
          ? undefined
          : new Role(
              hashLease,
              stand('hash'),
              () => lookAtHash(pair),
              () => pair.hashServer.isProvided(),
            );
      const skiplist =
        role === 'hash'
          ? undefined
          : new Role(skiplistLease, stand('skiplist'), () => lookAtSkiplist(pair));
      const served = { pair, hash, skiplist };
      pair.duties = () => this.#duties(served);
      return [served];
    });
  }

  *round(): Operation<ServedRound> {
    let answered = 0;
    let held = 0;
    for (const { pair, hash, skiplist } of this.#served) {
      if (hash && (yield* this.#holds(pair, hash))) {
        answered += yield* this.#hashRound(pair, hash);
      }
      if (skiplist && (yield* this.#holds(pair, skiplist))) {
        // Elected to one role of the pair, it may hold the other one for a repair.
        pair.hashLease.borrows = true;
        answered += yield* skiplistRound(pair);
      }
      held += [hash, skiplist].filter((role) => role?.held !== undefined).length;
    }
    return { held, answered };
  }

  /**
   * A turn; the lease is kept. While the table is lost it is the skiplist server's, if there is
   * one, which builds the table from what it knows.
   */
  *#hashRound(pair: Pair, role: Role): Operation<number> {
    let answered = 0;
    let turn: Turn | undefined;
    for (let i = 0; i < TURNS_IN_A_ROUND && role.held === role.candidacy.token; i++) {
      const isLast = i === TURNS_IN_A_ROUND - 1;
      turn = yield* pair.hashServer.turn({ release: false, isLast, after: turn });
      answered += turn.answers.length;
      if (turn.next === undefined) break;
      yield* this.#beat(role);
    }
    const lost = turn?.lost;
    // An operation of this client's own that builds the table does so under this lease.
    if (lost === undefined) return answered;
    if (!(yield* repair(pair)) && !pair.works) yield* this.#giveUp(pair, role);
    return answered;
  }

  /** The hash server's lease is given back later by an operation that works under it now. */
  *#giveUp(pair: Pair, role: Role): Operation<void> {
    role.held = undefined;
    role.lease.serves = false;
    if (role.lease !== pair.hashLease || !pair.works) yield* role.lease.release();
  }

  /**
   * While a table is lost the hash server's lease is for the skiplist server that is to build it,
   * if that is another process. It may be waiting for it, in its turn with a lease that this one
   * waits for: each of two with a role of two pairs.
   */
  *#letGo({ pair, hash }: Served): Operation<void> {
    if (hash?.held === undefined || pair.works) return;
    const { isLost } = yield* readTableState(pair.geometry);
    if (isLost && (yield* hasOtherSkiplistServer(pair))) yield* this.#giveUp(pair, hash);
  }

  /** Of the rounds, what is done in the midst of long work as well. */
  *#duties({ pair, hash, skiplist }: Served): Operation<void> {
    for (const served of this.#served) if (served.pair !== pair) yield* this.#letGo(served);
    if (hash?.held !== undefined) yield* this.#beat(hash);
    if (skiplist?.held === undefined) return;
    yield* this.#beat(skiplist);
    // Writes are held meanwhile; reads are answered (section 3.2).
    // One that would have to be built from the table waits for the table.
    if (!pair.holds) return;
    const { table, committed } = yield* readState(pair);
    const isKnown = yield* pair.skiplist.followLog(table.generation, committed);
    if (isKnown) yield* answerScans(pair);
  }

  /** Takes the lease unless it is held; who is not elected any more gives it back. */
  *#holds(pair: Pair, role: Role): Operation<boolean> {
    const { lease, candidacy } = role;
    const { token } = candidacy;
    if (role.held !== undefined) {
      if (role.held === token) return yield* this.#beat(role);
      yield* this.#giveUp(pair, role);
    }
    if (token === undefined || !(yield* this.#isProvided(role))) return false;
    const { holder, progress, isBusy } = yield* role.look();
    if (isBusy) return false;
    if (token < holder.token) return outvoted(token);
    const isOwn = holder.serves && holder.client === lease.own && holder.token === token;
    const stands = !isOwn && this.#standsStill(role, holder, progress);
    if (!isOwn && !(yield* lease.takeToServe({ ...holder, stands }, token))) {
      if (stands) yield* lease.fence(holder);
      return false;
    }
    role.held = token;
    lease.serves = true;
    return true;
  }

  /** In a full pool it is looked again as often as a server beats. */
  *#isProvided(role: Role): Operation<boolean> {
    const now = this.#now();
    if (role.provides && !role.isProvided && now - role.providedAt >= BEAT_MS) {
      role.providedAt = now;
      role.isProvided = yield* role.provides();
    }
    return role.isProvided;
  }

  *#beat(role: Role): Operation<boolean> {
    const now = this.#now();
    if (now - role.beatAt < BEAT_MS) return true;
    role.beatAt = now;
    yield* role.lease.beat();
    return true;
  }

  #standsStill({ lease, stillness }: Role, holder: Holder, progress: number): boolean {
    if (holder.client === 0 || holder.client === lease.own) return false;
    return stillness.look(holder.word, progress, this.#now()) >= this.#lapse;
  }

  /** Gives up the leases; what waits is answered by the next server. */
  *stop(): Operation<void> {
    for (const { pair, hash, skiplist } of this.#served) {
      for (const role of [hash, skiplist]) {
        if (role?.held !== undefined) yield* this.#giveUp(pair, role);
      }
    }
  }
}

function* skiplistRound(pair: Pair): Operation<number> {
  const { isLost } = yield* readTableState(pair.geometry);
  if (isLost) yield* repair(pair);
  return yield* answerScans(pair);
}

function* lookAtHash(pair: Pair): Operation<Look> {
  const { holder, progress, table } = yield* readState(pair);
  return { holder, progress, isBusy: table.isLost && (yield* hasOtherSkiplistServer(pair)) };
}

function* lookAtSkiplist(pair: Pair): Operation<Look> {
  return { ...(yield* readLease(pair.skiplistLease)), isBusy: false };
}

/** A later primary has been there: nothing to do but to be elected anew. */
function outvoted(token: number): false {
  if (token > 0) return false;
  throw new StepwellError(
    'SW_STORE_MISMATCH',
    'the servers of this store are elected by a coordination service: name it',
  );
}
