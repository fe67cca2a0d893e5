import { StepwellError } from '../../errors.ts';
import type { Operation } from '../../verbs/index.ts';
import type { HStoreTable } from './client/table.ts';
import type { Candidacy, Coordinator } from './election.ts';
import type { Pair } from './pair.ts';
import { type Holder, Stillness } from './protocol/lease.ts';
import { type PairState, readState } from './protocol/pair-state.ts';
import { growTable, hasOtherSkiplistServer, repair } from './recovery/rebuild-table.ts';
import { answerScans } from './skiplist-server/skiplist-server.ts';

const LAPSE_MS = 3000;
/** Turns in a row in one round. Each reads ahead for the next one. */
const TURNS_IN_A_ROUND = 16;
/** How often an idle server beats. */
const BEAT_MS = 100;
/** Without a coordination service the CAS of the lease alone elects. */
const NOT_ELECTED: Candidacy = { token: 0 };

export type ServerRole = 'hash' | 'skiplist' | 'both';

export interface ServedRound {
  /** Leases that this server holds; none while another server is the primary. */
  held: number;
  answered: number;
}

export interface ServerSettings {
  role: ServerRole;
  /** Pairs that it serves, counted from 1; all of the store when left out. */
  pairs?: readonly number[] | undefined;
  /** Elects the primaries; without one the first process that takes a lease is the primary. */
  coordinator?: Coordinator | undefined;
  /** Prefix of the roles' names in an election: the pool and its store. */
  name?: string;
  /** Milliseconds of a clock that never goes back. */
  now?: () => number;
  /** Milliseconds without progress after which a primary is fenced. */
  lapse?: number;
}

/** A role of a pair for which this process is a candidate. */
function newRole(pair: Pair, isHash: boolean, candidacy: Candidacy) {
  return {
    pair,
    isHash,
    lease: isHash ? pair.hashLease : pair.skiplistLease,
    candidacy,
    stillness: new Stillness(),
    /** The token that this process has the lease with. */
    held: undefined as number | undefined,
    beatAt: 0,
    /** When this process last tried to get memory for turns, and whether it has some. */
    providedAt: Number.NEGATIVE_INFINITY,
    isProvided: false,
  };
}

type Role = ReturnType<typeof newRole>;

/** The roles for which this process is a candidate, and its work as their server. */
export class PairServers {
  readonly #now: () => number;
  readonly #lapse: number;
  /** Ordered by pair. */
  readonly #roles: readonly Role[];

  /** Raises SW_INVALID_ARGUMENT for pairs that the store does not have. */
  constructor(table: HStoreTable, settings: ServerSettings) {
    const { role, coordinator, name = 'store' } = settings;
    this.#now = settings.now ?? (() => 0);
    this.#lapse = settings.lapse ?? LAPSE_MS;
    const stand = (what: string) => coordinator?.stand(`${name}/${what}`) ?? NOT_ELECTED;
    const pairs = pairsOf(table, settings.pairs);
    for (const pair of pairs) pair.duties = () => this.#duties(pair);
    this.#roles = pairs.flatMap((pair) =>
      (['hash', 'skiplist'] as const)
        .filter((each) => role === each || role === 'both')
        .map((each) => newRole(pair, each === 'hash', stand(`${pair.geometry.number}/${each}`))),
    );
  }

  /**
   * Takes the leases of its roles, or stands by while another process has them, and answers what
   * waits. Between two rounds it holds nothing of the pool but the leases, so that epochs can pass.
   */
  *round(): Operation<ServedRound> {
    let answered = 0;
    for (const role of this.#roles) {
      if (!(yield* this.#holds(role))) continue;
      answered += role.isHash ? yield* this.#hashRound(role) : yield* skiplistRound(role);
    }
    return { held: this.#roles.filter(({ held }) => held !== undefined).length, answered };
  }

  /** Gives up the leases; the next server answers what waits. */
  *stop(): Operation<void> {
    for (const role of this.#roles) if (role.held !== undefined) yield* this.#giveUp(role);
  }

  /**
   * Runs turns and keeps the lease. While the table is lost, it leaves the lease to the skiplist
   * server, if there is one, because that can rebuild the table from its skiplist.
   */
  *#hashRound(role: Role): Operation<number> {
    const { pair } = role;
    let answered = 0;
    const options = { release: false, turnsMax: TURNS_IN_A_ROUND };
    const beat = () => this.#beat(role);
    const { crowded, lost } = yield* pair.hashServer.serve(options, function* (result) {
      answered += result.answers.length;
      if (result.next === undefined) return false;
      yield* beat();
      return role.held === role.candidacy.token;
    });
    if (crowded !== undefined && !pair.works) yield* growTable(pair, crowded);
    // An operation of this client that rebuilds the table needs this lease.
    if (lost === undefined) return answered;
    if (!(yield* repair(pair)) && !pair.works) yield* this.#giveUp(role);
    return answered;
  }

  /** Releases the lease, unless an operation still works under it: that one releases it. */
  *#giveUp(role: Role): Operation<void> {
    role.held = undefined;
    role.lease.serves = false;
    if (!role.isHash || !role.pair.works) yield* role.lease.release();
  }

  /**
   * While a table is lost, leaves the hash server's lease to the skiplist server that rebuilds the
   * table, if that is another process. Otherwise two processes, each with roles of two pairs, could
   * wait for each other's leases for ever.
   */
  *#letGo(role: Role): Operation<void> {
    const { pair } = role;
    if (!role.isHash || pair.works) return;
    if (yield* isForBuilder(pair, yield* readState(pair))) yield* this.#giveUp(role);
  }

  /** The part of a round that a server also does during long work. */
  *#duties(pair: Pair): Operation<void> {
    const held = this.#roles.filter((role) => role.held !== undefined);
    for (const role of held) if (role.pair !== pair) yield* this.#letGo(role);
    const own = held.filter((role) => role.pair === pair);
    for (const role of own) yield* this.#beat(role);
    // Writes wait meanwhile. Reads are answered (section 3.2), unless the skiplist would first have
    // to be built from the table.
    if (!pair.holds || own.every(({ isHash }) => isHash)) return;
    const { table, committed } = yield* readState(pair);
    const isKnown = yield* pair.skiplist.followLog(table.generation, committed);
    if (isKnown) yield* answerScans(pair);
  }

  /** Takes the lease unless this process has it; gives it back if no longer elected. */
  *#holds(role: Role): Operation<boolean> {
    const { pair, isHash, lease, candidacy } = role;
    const { token } = candidacy;
    if (role.held !== undefined) {
      if (role.held === token) {
        yield* this.#beat(role);
        return true;
      }
      yield* this.#giveUp(role);
    }
    if (token === undefined || !(yield* this.#isProvided(role))) return false;
    const state = yield* readState(pair);
    const { holder, progress } = isHash ? state : state.skiplist;
    if (isHash && (yield* isForBuilder(pair, state))) return false;
    if (isOutvoted(token, holder)) return false;
    const isOwn = lease.isServer(holder) && holder.token === token;
    const stands = !isOwn && this.#standsStill(role, holder, progress);
    if (!isOwn && !(yield* lease.takeToServe({ ...holder, stands }, token))) {
      if (stands) yield* lease.fence(holder);
      return false;
    }
    role.held = token;
    lease.serves = true;
    return true;
  }

  /** Whether a hash server has memory for turns. In a full pool it tries again at each beat. */
  *#isProvided(role: Role): Operation<boolean> {
    if (!role.isHash) return true;
    const now = this.#now();
    if (!role.isProvided && now - role.providedAt >= BEAT_MS) {
      role.providedAt = now;
      role.isProvided = yield* role.pair.hashServer.isProvided();
    }
    return role.isProvided;
  }

  *#beat(role: Role): Operation<void> {
    const now = this.#now();
    if (now - role.beatAt < BEAT_MS) return;
    role.beatAt = now;
    yield* role.lease.beat();
  }

  #standsStill({ lease, stillness }: Role, holder: Holder, progress: number): boolean {
    if (!lease.isTaken(holder)) return false;
    return stillness.look(holder.word, progress, this.#now()) >= this.#lapse;
  }
}

/** The pairs with these numbers, counted from 1; all by default. Raises SW_INVALID_ARGUMENT. */
function pairsOf({ pairs }: HStoreTable, numbers: readonly number[] | undefined): Pair[] {
  const wrong = numbers?.find((n) => !Number.isInteger(n) || n < 1 || n > pairs.length);
  if (wrong !== undefined) {
    const has = `the store has pairs 1..${pairs.length} (parameter pairs)`;
    throw new StepwellError('SW_INVALID_ARGUMENT', `${has}, no pair ${wrong}`);
  }
  return pairs.filter((_, i) => numbers?.includes(i + 1) ?? true);
}

function* skiplistRound({ pair }: Role): Operation<number> {
  // The skiplist server may take the hash server's lease for a repair without being elected to it.
  pair.hashLease.borrows = true;
  const { table } = yield* readState(pair);
  if (table.isLost) yield* repair(pair);
  return yield* answerScans(pair);
}

/** Whether the table is lost, and another process is the skiplist server, which rebuilds it. */
function* isForBuilder(pair: Pair, { table }: PairState): Operation<boolean> {
  return table.isLost && (yield* hasOtherSkiplistServer(pair));
}

/** Whether there was a later primary, so that this process must be elected again. */
function isOutvoted(token: number, holder: Holder): boolean {
  if (token >= holder.token) return false;
  if (token > 0) return true;
  const elected = 'the servers of this store are elected by a coordination service: name it';
  throw new StepwellError('SW_STORE_MISMATCH', elected);
}
