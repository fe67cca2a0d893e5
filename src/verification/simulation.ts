import { StepwellError } from '../errors.ts';
import { buildRace, openRace, RACE_KIND, type RaceIndex } from '../indexes/race/race.ts';
import { CHUNK_BYTES, type PoolParameters } from '../pool/layout.ts';
import type { ClientRow } from '../pool/membership.ts';
import { Pool } from '../pool/pool.ts';
import { formatSuperblock } from '../pool/superblock.ts';
import { Prng } from '../random/prng.ts';
import { checkStores } from '../store/check.ts';
import { AdversaryFabric, AdversaryMemory } from './adversary.ts';
import { SimulatedClient } from './client.ts';
import { type CallRecord, encodeState, type KeyState, type Note, timeline } from './history.ts';
import { checkHistory } from './linearizability.ts';
import { type Policy, type PolicyName, policyOf } from './policies.ts';
import { ReclamationOracle } from './reclamation-oracle.ts';
import {
  CHUNKS_MAX,
  type ClientPlan,
  type ProgramItem,
  type Scenario,
  scenarioOf,
} from './scenario.ts';

/** A planted bug: changes one client's attachment before it is used. */
export interface Canary {
  name: string;
  index?: (index: RaceIndex) => RaceIndex;
  pool?: (pool: Pool) => void;
}

export interface RunOptions {
  seed: number;
  policy: PolicyName;
  /** Another schedule for the same scenario. */
  schedule?: number;
  /** Items of the programs that are kept; all when left out. */
  keep?: ReadonlySet<number>;
  crashes?: boolean;
  canary?: Canary;
  /** Lets an insertion have any version, so that other bugs are not hidden by that one. */
  anyVersion?: boolean;
  /** Whether the oracle checks the grace period itself and not only what follows of it. */
  grace?: boolean;
}

export type FailureKind = 'linearizability' | 'reclamation' | 'structure' | 'liveness' | 'error';

export interface Failure {
  kind: FailureKind;
  text: string;
}

export interface RunReport {
  failure: Failure | undefined;
  operations: number;
  steps: number;
  splits: number;
  /** Attempts that met another client and had to begin again. */
  retries: number;
  freed: number;
  crashes: number;
  /** Calls of all clients, readable. */
  timeline: string;
}

const REGION_BYTES = CHUNKS_MAX * CHUNK_BYTES;
const CLIENTS_MAX = 12;
/** Far more than any run needs: reaching it means that somebody does not get ahead. */
const STEPS_MAX = 150_000;

class SimulationFailure extends Error {
  readonly kind: FailureKind;

  constructor(kind: FailureKind, text: string) {
    super(text);
    this.kind = kind;
  }
}

export function runSchedule(options: RunOptions): RunReport {
  return new Simulation(options).run();
}

class Simulation {
  readonly #options: RunOptions;
  readonly #scenario: Scenario;
  readonly #prng: Prng;
  readonly #policy: Policy;
  readonly #memory = new AdversaryMemory(1, REGION_BYTES);
  readonly #oracle: ReclamationOracle;
  readonly #clients: SimulatedClient[] = [];
  readonly #records: CallRecord[] = [];
  readonly #notes: Note[] = [];
  /** By row: who cleans up after a dead client. */
  readonly #recovering = new Map<number, SimulatedClient>();
  readonly #buried = new Set<SimulatedClient>();
  readonly #root: number;
  readonly #parameters: PoolParameters;
  #now = 0;
  #failure: SimulationFailure | undefined;

  constructor(options: RunOptions) {
    this.#options = options;
    this.#scenario = scenarioOf(options.seed, { crashes: options.crashes });
    this.#prng = Prng.fromSeed(options.seed).fork(2 + (options.schedule ?? 0));
    this.#policy = policyOf(options.policy, this.#prng.fork(1));
    this.#parameters = {
      regionBytes: this.#scenario.chunks * CHUNK_BYTES,
      regionsMax: 1,
      clientsMax: CLIENTS_MAX,
      chunkBytes: CHUNK_BYTES,
      createdAt: 0,
      poolId: 0,
    };
    this.#memory.put(0, formatSuperblock(this.#parameters));
    this.#oracle = new ReclamationOracle(
      this.#memory,
      {
        now: () => this.#now,
        lastStep: (client) => this.#clients[client].lastStep,
        inOperation: () => this.#inOperation(),
      },
      (text) => {
        this.#failure ??= new SimulationFailure('reclamation', text);
      },
      { grace: options.grace },
    );
    const { shape, clients } = this.#scenario;
    const { pool: creator } = this.#attach();
    const { associativity, groups, initialDepth, maxDepth, seed } = shape;
    const parameters = [associativity, groups, initialDepth, maxDepth, seed];
    const entry = creator.run(
      creator.catalog.findOrCreate('s', RACE_KIND, parameters, (id) =>
        buildRace(creator, shape, id),
      ),
    );
    this.#root = entry.root;
    clients.forEach((plan, i) => {
      const kept = options.keep ? plan.items.filter(({ id }) => options.keep?.has(id)) : plan.items;
      this.#addClient({ ...plan, items: kept }, i === 0 ? creator : undefined);
    });
  }

  #inOperation(): { client: number; since: number }[] {
    const found: { client: number; since: number }[] = [];
    for (const { number, dead, operationSince } of this.#clients) {
      if (!dead && operationSince !== undefined)
        found.push({ client: number, since: operationSince });
    }
    return found;
  }

  #attach(): { pool: Pool; number: number } {
    const number = this.#clients.length;
    const fabric = new AdversaryFabric(this.#memory, number);
    const pool = new Pool(fabric, this.#parameters, this.#memory.source);
    const { membership } = pool;
    const thread = { ...membership.thread, tid: 1 + number };
    Object.defineProperty(membership, 'thread', { value: thread });
    membership.liveness = (row) => (this.#isGone(row) ? 'gone' : 'alive');
    pool.join(`c${number}`);
    return { pool, number };
  }

  #addClient(plan: ClientPlan, joined?: Pool): void {
    const { pool, number } = joined ? { pool: joined, number: 0 } : this.#attach();
    this.#options.canary?.pool?.(pool);
    this.#oracle.watch(number, pool);
    const opened = pool.run(openRace(pool, this.#scenario.shape, 1, this.#root));
    const index = this.#options.canary?.index?.(opened) ?? opened;
    this.#clients.push(
      new SimulatedClient(number, pool, index, plan, {
        now: () => this.#now,
        keys: this.#scenario.keys,
        prng: this.#prng,
        record: (record) => this.#record(record),
        note: (note) => this.#notes.push(note),
        peek: (address) => this.#memory.word(address),
        nextRecovery: (client) => this.#nextRecovery(client),
        recovered: (row) => this.#recovered(row),
      }),
    );
  }

  #record(record: CallRecord): void {
    record.anyVersion = this.#options.anyVersion ?? false;
    this.#records.push(record);
  }

  /** Whether whoever holds the row can do nothing any more. */
  #isGone(row: ClientRow): boolean {
    if (!row.live) return this.#recovering.get(row.id)?.dead ?? false;
    return this.#deadHolder(row) !== undefined;
  }

  #deadHolder(row: ClientRow): SimulatedClient | undefined {
    return this.#clients.find(
      ({ dead, pool: { membership } }) =>
        dead && membership.id === row.id && membership.incarnation === row.incarnation,
    );
  }

  /** Reads the row of a dead client whose time has come, outside of the schedule. */
  #nextRecovery(client: SimulatedClient): ClientRow | undefined {
    for (const dead of this.#clients) {
      if (!dead.dead || this.#buried.has(dead)) continue;
      if (this.#now < dead.diedAt + dead.plan.noticedAfter) continue;
      const { id, incarnation } = dead.pool.membership;
      const holder = this.#recovering.get(id);
      if (holder !== undefined && !holder.dead) continue;
      const rows = client.pool.run(client.pool.membership.rows());
      const row = rows.find((one) => one.id === id && one.incarnation === incarnation);
      if (row === undefined) {
        this.#bury(dead);
        continue;
      }
      this.#recovering.set(id, client);
      return row;
    }
    return undefined;
  }

  #recovered(row: ClientRow): void {
    this.#recovering.delete(row.id);
    for (const dead of this.#clients) {
      const { id, incarnation } = dead.pool.membership;
      if (dead.dead && id === row.id && incarnation === row.incarnation) this.#bury(dead);
    }
  }

  #bury(dead: SimulatedClient): void {
    if (this.#buried.has(dead)) return;
    this.#buried.add(dead);
    this.#recovering.delete(dead.pool.membership.id);
    if (!dead.plan.replaced) return;
    const crashAfter = Number.POSITIVE_INFINITY;
    this.#addClient({ ...dead.plan, items: dead.rest as ProgramItem[], crashAfter });
  }

  run(): RunReport {
    try {
      this.#runSchedule();
      this.#checkLiveness();
      this.#checkFinalState();
      this.#checkHistories();
    } catch (error) {
      this.#failure ??= failureOf(error);
    }
    const failure = this.#failure && { kind: this.#failure.kind, text: this.#failure.message };
    return {
      failure,
      operations: this.#records.length,
      steps: this.#now,
      splits: this.#clients.reduce((sum, { index }) => sum + index.table.splits, 0),
      retries: this.#clients.reduce((sum, { index }) => sum + retriesOf(index), 0),
      freed: this.#oracle.freed,
      crashes: this.#clients.filter(({ dead }) => dead).length,
      timeline: failure ? timeline(this.#records, this.#scenario.keys, this.#notes) : '',
    };
  }

  #runSchedule(): void {
    for (;;) {
      const runnable: number[] = [];
      for (const client of this.#clients) {
        if (!client.dead && !client.done) runnable.push(client.number);
      }
      if (runnable.length === 0) return;
      const client = this.#clients[this.#policy.pick(runnable, this.#now)];
      this.#now++;
      if (client.pieces >= client.plan.crashAfter && this.#clients.length > 1) {
        client.die();
        continue;
      }
      client.step();
      if (client.paused) this.#policy.paused(client.number);
      if (this.#failure) throw this.#failure;
      if (this.#now > STEPS_MAX) {
        throw new SimulationFailure('liveness', `not finished after ${STEPS_MAX} steps`);
      }
    }
  }

  /** What was retired comes free when everybody has gone idle and the dead are buried. */
  #checkLiveness(): void {
    const living = this.#clients.filter(({ dead }) => !dead);
    for (const { pool } of living) {
      pool.recoverGone();
      pool.run(pool.reclamation.goOffline());
    }
    for (const { pool, name } of living) {
      for (let i = 0; i < 4; i++) pool.run(pool.reclamation.collect());
      if (pool.reclamation.retired > 0) {
        const left = pool.reclamation.retired;
        throw new SimulationFailure('liveness', `${left} blocks of ${name} never come free`);
      }
    }
  }

  /** Structure, then a last search of every key that has to fit the history. */
  #checkFinalState(): void {
    const { pool, number } = this.#attach();
    const { shape, keys } = this.#scenario;
    const open = () => pool.run(openRace(pool, shape, 1, this.#root));
    const { problems } = checkStores(pool, 'simulated', open, undefined);
    if (problems.length > 0) throw new SimulationFailure('structure', problems.join('; '));
    const items = keys.map((_, key) => ({
      id: 0,
      call: { key, kind: 'search' as const },
      after: 'none' as const,
    }));
    const auditor = new SimulatedClient(
      number,
      pool,
      open(),
      { items, crashAfter: Number.POSITIVE_INFINITY, noticedAfter: 0, replaced: false },
      {
        now: () => ++this.#now,
        keys,
        prng: this.#prng,
        record: (record) => this.#record(record),
        note: (note) => this.#notes.push(note),
        peek: (address) => this.#memory.word(address),
        nextRecovery: () => undefined,
        recovered: () => {},
      },
    );
    while (!auditor.done) auditor.step();
    pool.close();
  }

  #checkHistories(): void {
    const { keys } = this.#scenario;
    for (let key = 0; key < keys.length; key++) {
      const records = this.#records.filter(
        ({ call, refusedBy, result }) =>
          call.key === key &&
          refusedBy === undefined &&
          (result !== undefined || call.kind !== 'search'),
      );
      const verdict = checkHistory<KeyState>(records, undefined, encodeState);
      if (verdict.linearizable) continue;
      const explained = new Set(verdict.order);
      const rest = records.filter((_, i) => !explained.has(i));
      throw new SimulationFailure(
        'linearizability',
        `the history of ${keys[key]} cannot be put in order:\n${timeline(records, keys)}\n` +
          `  the longest order ends in ${encodeState(verdict.state)} and leaves out\n` +
          timeline(rest, keys),
      );
    }
  }
}

function retriesOf({ table: { retries } }: RaceIndex): number {
  return Object.values(retries).reduce((sum, count) => sum + count, 0);
}

function failureOf(error: unknown): SimulationFailure {
  if (error instanceof SimulationFailure) return error;
  const { message, stack } = error as Error;
  const code = error instanceof StepwellError ? `${error.code}: ` : '';
  return new SimulationFailure('error', `${code}${message}\n${stack}`);
}
