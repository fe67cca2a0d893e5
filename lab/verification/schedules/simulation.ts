import { StepwellError } from '../../../src/errors.ts';
import type { Index } from '../../../src/indexes/contract.ts';
import { createStore, openIndex } from '../../../src/indexes/kinds.ts';
import type { CatalogEntry } from '../../../src/pool/catalog.ts';
import { currentThread } from '../../../src/pool/clients/thread-identity.ts';
import { CHUNK_BYTES, PoolLayout, type PoolParameters } from '../../../src/pool/layout.ts';
import { LocalPool } from '../../../src/pool/local-pool.ts';
import { formatSuperblock } from '../../../src/pool/superblock.ts';
import { Prng } from '../../../src/random/prng.ts';
import type { Address, Operation } from '../../../src/verbs/index.ts';
import { growthsOf, retriesOf } from '../../support/counters.ts';
import { type Canary, planted } from '../canary.ts';
import { auditHistories, auditReclamation } from '../checks/audit.ts';
import { blockOf } from '../checks/block-of.ts';
import { type FailureKind, VerificationFailure } from '../checks/failure.ts';
import { checkMemory } from '../checks/final-accounting.ts';
import { type CallRecord, type Note, timeline } from '../checks/history.ts';
import { ReclamationOracle } from '../checks/reclamation-oracle.ts';
import { RunClock } from '../checks/run-clock.ts';
import { auditSnapshots, type Sight } from '../checks/snapshots.ts';
import { countingTimer } from '../counting-timer.ts';
import { subjectOf } from '../subjects/index.ts';
import type { Subject } from '../subjects/subject.ts';
import { AdversaryFabric, AdversaryMemory } from './adversary.ts';
import { type ClientContext, SimulatedClient } from './client.ts';
import { Deaths } from './deaths.ts';
import { nearReadsOf } from './near.ts';
import { type Policy, type PolicyName, policyOf } from './policies.ts';
import { type ClientPlan, type Scenario, scenarioOf } from './scenario.ts';
import { CHUNKS_MAX, LANES_MAX, STAYING, type Swarm } from './swarm.ts';

export interface RunOptions {
  /** The index; RACE when left out. */
  subject?: Subject;
  seed: number;
  policy: PolicyName;
  /** Another schedule for the same scenario. */
  schedule?: number;
  /** Items of the programs that are kept; all when left out. */
  keep?: ReadonlySet<number>;
  crashes?: boolean;
  /** Features of the scenario that are not left to chance. */
  swarm?: Partial<Swarm>;
  /** Whether searches go through near caches. */
  near?: boolean;
  canary?: Canary;
  /** Lets an insertion have any version, so that other bugs are not hidden by that one. */
  anyVersion?: boolean;
  /** Whether the oracle checks the grace period itself and not only what follows of it. */
  grace?: boolean;
}

export interface Failure {
  kind: FailureKind;
  text: string;
}

export interface RunReport {
  failure: Failure | undefined;
  operations: number;
  steps: number;
  splits: number;
  /** Attempts that met another client and had to start over. */
  retries: number;
  freed: number;
  /** Chunks that came free for any use. */
  recycled: number;
  crashes: number;
  /** Of these, clients that died between operations: joining, recovering, sweeping, leaving … */
  dutyCrashes: number;
  /** Calls that found the pool full. */
  refusals: number;
  walks: number;
  sweeps: number;
  /** Clients that joined while others were running operations. */
  joins: number;
  departures: number;
  /** Live clients that were declared dead and noticed it. */
  expulsions: number;
  /** The most pieces that a client took after a crash to finish its operations in flight. */
  settled: { call: number; duty: number };
  /** Calls of all clients, readable. */
  timeline: string;
}

const CLIENTS_MAX = 12;
/** Memory nodes of a pool, of one region each. */
const NODES_MAX = 2;
/** Streams of a seed from here on draw the techniques of a client. */
const TECHNIQUES = 1000;
const NAME = 's';
/** More steps mean a livelock: a run needs fewer even if every operation sweeps and fails. */
const STEPS_MAX = 1_000_000;
/**
 * Pieces that a call or a duty may take to finish when no client dies and nothing new begins. A
 * duty needs more: a sweep that waits and gives up polls all clients a hundred times. The most that
 * was seen in 100,000 schedules is a third of it.
 */
const SETTLE_CALL_PIECES = 15_000;
const SETTLE_DUTY_PIECES = 50_000;

export function scenarioFor(options: RunOptions): Scenario {
  const { seed, subject, crashes, swarm, canary } = options;
  const chosen = { subject: subject ?? subjectOf(canary?.kind), crashes };
  // The known seeds that show a canary have programs without expiry or eviction.
  const features = { ...(canary && STAYING), ...swarm, ...canary?.scenario?.swarm };
  return scenarioOf(seed, { ...chosen, ...canary?.scenario, swarm: features });
}

/** Memory to reuse for all runs: allocating it would take most of a short run's time. */
export function newSimulationMemory(): AdversaryMemory {
  return new AdversaryMemory(NODES_MAX, CHUNKS_MAX * CHUNK_BYTES);
}

export function runSchedule(options: RunOptions, memory = newSimulationMemory()): RunReport {
  memory.reset();
  return new Simulation(options, memory).run();
}

class Simulation {
  readonly #options: RunOptions;
  readonly #scenario: Scenario;
  readonly #prng: Prng;
  readonly #policy: Policy;
  readonly #memory: AdversaryMemory;
  readonly #oracle: ReclamationOracle;
  readonly #clients: SimulatedClient[] = [];
  readonly #deaths: Deaths;
  readonly #records: CallRecord[] = [];
  readonly #notes: Note[] = [];
  /** What steps of scans have handed out. */
  readonly #steps: (readonly Sight[])[] = [];
  readonly #parameters: PoolParameters;
  readonly #thread = currentThread();
  readonly #clock = new RunClock();
  #entry: CatalogEntry | undefined;
  #now = 0;
  #settledFor = 0;
  #losses = 0;
  #recycled = 0;
  readonly #settled = { call: 0, duty: 0 };
  #failure: VerificationFailure | undefined;

  constructor(options: RunOptions, memory: AdversaryMemory) {
    this.#options = options;
    this.#memory = memory;
    const { seed, policy, schedule = 0, canary, grace = true } = options;
    this.#scenario = scenarioFor(options);
    this.#prng = Prng.fromSeed(seed).fork(2 + schedule);
    this.#policy = policyOf(policy, this.#prng.fork(1), expectedSteps(this.#scenario));
    const { subject, parameters } = this.#scenario;
    const nodes = subject.nodes?.(parameters) ?? 1;
    this.#parameters = {
      regionBytes: this.#scenario.chunks * CHUNK_BYTES,
      regionsMax: nodes,
      ...(nodes > 1 ? { nodes } : {}),
      clientsMax: CLIENTS_MAX,
      createdAt: 0,
      poolId: 0,
    };
    memory.put(0, formatSuperblock(this.#parameters));
    const now = () => this.#now;
    this.#deaths = new Deaths(this.#clients, now, (address) => memory.word(address));
    const layout = new PoolLayout(this.#parameters);
    const view = {
      now,
      inOperation: () => this.#inOperation(),
      lastStep: this.#lastStep,
      blockOf: (address: Address) => blockOf(layout, (at) => memory.word(at), address),
    };
    const fail = (text: string) => {
      this.#failure ??= new VerificationFailure('reclamation', text);
    };
    this.#oracle = new ReclamationOracle(memory, view, fail, {
      grace: grace && !canary?.consequencesOnly,
      // A near read reads the header of a record beside its slot, and discards it then.
      readsAhead: this.#options.near ? () => true : this.#scenario.subject.readsAhead,
      locksAhead: subject.locksAhead,
      // A record that notes its uses is written as long as a client that has found it may be.
      overwrites: (units) =>
        this.#scenario.expires || subject.overwrites?.(units, this.#parameters.nodes) === true,
    });
    this.#scenario.clients.forEach((plan, i) => {
      const kept = options.keep ? plan.items.filter(({ id }) => options.keep?.has(id)) : plan.items;
      this.#addClient({ ...plan, items: kept }, this.#startsBefore(i));
    });
  }

  readonly #lastStep = (client: number) => this.#clients[client].lastStep;

  /** Whether client i has joined and opened the store before the schedule begins. */
  #startsBefore(i: number): boolean {
    const { startup } = this.#scenario;
    return startup === 'prepared' || (startup === 'joining' && i === 0);
  }

  #inOperation(): { client: number; since: number }[] {
    return this.#clients
      .filter(({ dead }) => !dead)
      .flatMap(({ number, operationsSince }) =>
        operationsSince.map((since) => ({ client: number, since })),
      );
  }

  #newPool(number: number): LocalPool {
    const fabric = new AdversaryFabric(this.#memory, number);
    const thread = { ...this.#thread, tid: 1 + number };
    const pool = new LocalPool(fabric, this.#parameters, this.#memory.source, thread);
    pool.membership.liveness = (row) => (this.#deaths.isGone(row) ? 'gone' : 'alive');
    pool.timer.now = countingTimer();
    pool.clock.now = () => this.#clock.now;
    const recycle = pool.allocator.recycle.bind(pool.allocator);
    pool.allocator.recycle = (chunk, batch) => {
      this.#recycled++;
      recycle(chunk, batch);
    };
    return pool;
  }

  #addClient(plan: ClientPlan, startsAtOnce: boolean): void {
    const number = this.#clients.length;
    const pool = this.#newPool(number);
    this.#oracle.watch(number, pool);
    this.#options.canary?.pool?.(pool);
    const client = new SimulatedClient(number, pool, plan, this.#contextOf(plan));
    this.#clients.push(client);
    if (startsAtOnce) client.startAtOnce();
  }

  #contextOf({ haste }: ClientPlan): ClientContext {
    return {
      hasty: haste > 0,
      counts: this.#options.swarm?.evictions !== undefined && !this.#scenario.expires,
      clock: this.#clock,
      expires: this.#scenario.expires,
      expire: () => this.#expire(),
      now: () => this.#now,
      ...(this.#options.near && {
        near: (pool: LocalPool, index: Index) => nearReadsOf(pool, index, this.#options.canary),
      }),
      keys: this.#scenario.keys,
      walksOnce: this.#scenario.subject.walksOnce,
      prng: this.#prng,
      record: (record) => this.#record(record),
      snapshot: (seen) => this.#steps.push(seen),
      note: (note) => this.#notes.push(note),
      peek: (address) => this.#memory.word(address),
      serve: (index) => this.#scenario.subject.servers?.serve(index, this.#prng) ?? nothing(),
      startup: (client) => this.#startup(client),
      mayRecover: (client) => this.#deaths.mayRecover(client),
      recovers: (client) => this.#deaths.recovers(client),
    };
  }

  /** As store/open.ts does it: several clients may make the store at once. */
  *#startup({ name, number, pool, plan }: SimulatedClient): Operation<Index> {
    yield* pool.joining(name);
    const { subject, parameters } = this.#scenario;
    const entry = yield* createStore(pool, NAME, subject.kind, parameters);
    this.#entry ??= entry;
    if (this.#entry.root !== entry.root) {
      throw new VerificationFailure('structure', 'one store has two roots');
    }
    // At once: a check of the pool must know that this client may leave records behind.
    pool.run(pool.membership.nameStore(entry.id, true));
    if (this.#scenario.expires) yield* pool.catalog.noteTimed(entry.id);
    const opened = yield* openIndex(pool, entry);
    // From a generator of its own: a seed's schedule stays what it was for other indexes.
    subject.vary?.(opened, Prng.fromSeed(this.#options.seed).fork(TECHNIQUES + number));
    if (plan.haste > 0) subject.hasten?.(opened, plan.haste);
    return planted(opened, pool, this.#options.canary);
  }

  #record(record: CallRecord): void {
    record.anyVersion = this.#options.anyVersion ?? false;
    record.ownVersions = this.#scenario.subject.ownVersions ?? false;
    this.#records.push(record);
  }

  run(): RunReport {
    try {
      this.#runSchedule();
      this.#deaths.announce();
      auditReclamation(this.#living.map((client) => client.pool));
      const pool = this.#auditKeys();
      const { subject, parameters, keys } = this.#scenario;
      auditHistories(this.#records, keys);
      if (subject.scansSnapshots?.(parameters)) auditSnapshots(this.#steps, this.#records, keys);
      const open = (by: LocalPool) => by.run(openIndex(by, this.#entry as CatalogEntry));
      checkMemory(pool, open, {
        scenario: this.#scenario,
        clients: this.#clients,
        deaths: this.#deaths,
        oracle: this.#oracle,
        records: this.#records,
        losses: this.#losses,
      });
    } catch (error) {
      this.#failure ??= failureOf(error);
    }
    const failure = this.#failure && { kind: this.#failure.kind, text: this.#failure.message };
    const sum = (count: (client: SimulatedClient) => number) =>
      this.#clients.reduce((total, client) => total + count(client), 0);
    return {
      failure,
      operations: this.#records.length,
      steps: this.#now,
      splits: sum(({ index }) => (index ? growthsOf(index) : 0)),
      retries: sum(({ index }) => (index ? retriesOf(index) : 0)),
      freed: this.#oracle.freed,
      recycled: this.#recycled,
      crashes: sum(({ dead }) => Number(dead)),
      dutyCrashes: sum(({ dead, atDuty }) => Number(dead && atDuty)),
      refusals: this.#records.filter(({ refusedBy }) => refusedBy === 'SW_POOL_FULL').length,
      walks: sum(({ walks }) => walks),
      sweeps: sum(({ sweeps }) => sweeps),
      joins: sum(({ index, startedAt }) => Number(index !== undefined && startedAt > 0)),
      departures: sum(({ left }) => Number(left)),
      expulsions: sum(({ expelled }) => Number(expelled)),
      settled: this.#settled,
      timeline: failure ? timeline(this.#records, this.#scenario.keys, this.#notes) : '',
    };
  }

  #runSchedule(): void {
    for (;;) {
      if (this.#deaths.count > 0) this.#carryOn();
      const actors = this.#actors((client) => client.ready());
      if (actors.length === 0) {
        const next = this.#deaths.nextEvent();
        if (next === undefined) return;
        this.#now = next;
        continue;
      }
      this.#loseTable();
      const actor = this.#policy.pick(actors, this.#now);
      this.#now++;
      const client = this.#clients[Math.floor(actor / LANES_MAX)];
      if (client.doomed && this.#clients.length > 1) this.#kill(client);
      else if (this.#step(actor)) this.#policy.paused(actor);
    }
  }

  /**
   * Loses the memory of the table when its time has come and no client is inside a batch. A client
   * could not see the loss in a READ that got some words from before it.
   */
  #loseTable(): void {
    const { losses, subject } = this.#scenario;
    if (losses.length <= this.#losses || this.#now < losses[this.#losses]) return;
    const witness = this.#clients.find(({ index }) => index !== undefined)?.index;
    if (!witness || !this.#clients.every(({ isBetween }) => isBetween)) return;
    this.#losses++;
    const segments = subject.servers?.table(witness, (address) => this.#memory.word(address)) ?? [];
    for (const { address, bytes } of segments) this.#memory.fill(address, bytes, 0);
    const at = { invoked: this.#now, responded: this.#now };
    this.#notes.push({ client: '-', ...at, text: 'the table is lost' });
  }

  /** The clock advances for all clients at once. */
  #expire(): void {
    this.#clock.pass(this.#now);
    const at = { invoked: this.#now, responded: this.#now };
    this.#notes.push({ client: '-', ...at, text: 'the next deadline passes' });
  }

  /** Lanes of all clients, numbered through. */
  #actors(lanesOf: (client: SimulatedClient) => number[]): number[] {
    const actors: number[] = [];
    for (const client of this.#clients) {
      for (const lane of lanesOf(client)) actors.push(client.number * LANES_MAX + lane);
    }
    return actors;
  }

  /** Whether the actor let time pass. */
  #step(actor: number): boolean {
    const client = this.#clients[Math.floor(actor / LANES_MAX)];
    const paused = client.step(actor % LANES_MAX);
    if (client.frozen && !this.#deaths.has(client)) this.#deaths.add(client);
    if (this.#failure) throw this.#failure;
    if (this.#now > STEPS_MAX) {
      throw new VerificationFailure('liveness', `not finished after ${STEPS_MAX} steps`);
    }
    return paused;
  }

  #kill(client: SimulatedClient): void {
    client.die();
    this.#deaths.add(client);
  }

  /** What follows from deaths. */
  #carryOn(): void {
    this.#deaths.thaw();
    for (const dead of this.#deaths.unreplaced()) {
      if (this.#clients.length === CLIENTS_MAX) continue;
      const { plan, rest } = dead;
      const crashes = plan.crashes.slice(1);
      this.#addClient({ ...plan, items: rest, crashes, freezesBelow: 0 }, false);
    }
    if (this.#deaths.count === this.#settledFor) return;
    if (this.#now < this.#deaths.lastAt + this.#scenario.settlesAfter) return;
    this.#settledFor = this.#deaths.count;
    this.#settle();
  }

  /**
   * Nobody may depend on the dead: when their death is known, nobody dies any more and nothing new
   * begins, everything that the living have in flight ends within so many pieces of its own. The
   * schedule is fair now, because no protocol gets ahead while its client is not let run.
   */
  #settle(): void {
    this.#deaths.announce();
    for (let round = 0; ; round++) {
      const actors = this.#actors((client) => (client.dead ? [] : client.busy()));
      if (actors.length === 0) return;
      for (const actor of actors) {
        this.#checkSettling(this.#clients[Math.floor(actor / LANES_MAX)], round);
        this.#now++;
        this.#step(actor);
      }
    }
  }

  #checkSettling({ name, atDuty }: SimulatedClient, pieces: number): void {
    const longest = this.#settled;
    if (atDuty) longest.duty = Math.max(longest.duty, pieces);
    else longest.call = Math.max(longest.call, pieces);
    if (pieces <= (atDuty ? SETTLE_DUTY_PIECES : SETTLE_CALL_PIECES)) return;
    throw new VerificationFailure(
      'liveness',
      `what ${name} had in flight after a crash is not finished after ${pieces} pieces of its own`,
    );
  }

  get #living(): SimulatedClient[] {
    return this.#clients.filter((client) => !client.left && !this.#deaths.has(client));
  }

  /** A final search of every key, which must fit the key's history. */
  #auditKeys(): LocalPool {
    const items = this.#scenario.keys.map((_, key) => ({
      id: 0,
      call: { key, kind: 'search' as const },
      after: 'none' as const,
    }));
    const plan = {
      ...this.#scenario.clients[0],
      items,
      lanes: 1,
      crashes: [],
      leaves: false,
      haste: 0,
    };
    this.#addClient(plan, true);
    const auditor = this.#clients[this.#clients.length - 1];
    while (auditor.ready().length > 0) {
      this.#now++;
      auditor.step(0);
    }
    const { servers } = this.#scenario.subject;
    if (servers && this.#losses > 0) auditor.pool.run(servers.restore(auditor.index as Index));
    auditor.pool.run(auditor.pool.reclamation.goOffline());
    return auditor.pool;
  }
}

function* nothing(): Operation<void> {}

/** Pieces of a call with what it brings along, as measured over many runs. */
const STEPS_PER_ITEM = 60;

function expectedSteps({ clients }: Scenario): number {
  return STEPS_PER_ITEM * clients.reduce((sum, { items }) => sum + items.length, 0);
}

function failureOf(error: unknown): VerificationFailure {
  if (error instanceof VerificationFailure) return error;
  const { message, stack } = error as Error;
  const code = error instanceof StepwellError ? `${error.code}: ` : '';
  return new VerificationFailure('error', `${code}${message}\n${stack}`);
}
