import { type Index, isPlaced } from '../../../src/indexes/contract.ts';
import { createStore, openIndex } from '../../../src/indexes/kinds.ts';
import { sampleOf } from '../../../src/indexes/traversal/sample.ts';
import type { CatalogEntry } from '../../../src/pool/catalog.ts';
import type { ClientRow } from '../../../src/pool/clients/membership.ts';
import { currentThread } from '../../../src/pool/clients/thread-identity.ts';
import { CHUNK_BYTES, PoolLayout, type PoolParameters } from '../../../src/pool/layout.ts';
import { LocalPool } from '../../../src/pool/local-pool.ts';
import { formatSuperblock } from '../../../src/pool/superblock.ts';
import { type Address, type Operation, READ, UNIT_BYTES } from '../../../src/verbs/index.ts';
import { type Canary, planted } from '../canary.ts';
import { auditHistories, auditKeys, auditReclamation, auditStructure } from '../checks/audit.ts';
import { blockOf } from '../checks/block-of.ts';
import { VerificationFailure } from '../checks/failure.ts';
import { CallRecord, timeline } from '../checks/history.ts';
import { ReclamationOracle } from '../checks/reclamation-oracle.ts';
import { RunClock } from '../checks/run-clock.ts';
import type { Sight } from '../checks/snapshots.ts';
import { countingTimer } from '../counting-timer.ts';
import { AdversaryFabric, AdversaryMemory, WORD } from '../schedules/adversary.ts';
import { Caller } from '../schedules/caller.ts';
import { nearReadsOf } from '../schedules/near.ts';
import type { Model } from './explorer.ts';
import { InFlight } from './in-flight.ts';
import {
  compacts,
  expires,
  isWithoutMemory,
  MET,
  notesUses,
  type Scope,
  type ScopeAction,
} from './scope.ts';
import { compact, isPosting, ScopeClient, type ScopeLog } from './scope-client.ts';
import { INVOKE, LOAD, RETURN, STORE, type Step, type StepId } from './trace.ts';

/** A client dies after so many verbs that changed something. */
export interface Crash {
  client: number;
  after: number;
  /** Whether the others begin only when it is dead, or has done all that it has to do. */
  first?: boolean;
}

const CHUNKS = 8;
const PARAMETERS: PoolParameters = {
  regionBytes: CHUNKS * CHUNK_BYTES,
  regionsMax: 1,
  clientsMax: 8,
  createdAt: 0,
  poolId: 0,
};
/** A longer execution is cut off. */
const STEPS_MAX = 4000;
/** Stands for the clock among the words that a step touches. */
const CLOCK = -1000;
/** Parts of the index in which a sample is tried. */
const PARTS = 256;

/** A scope as a program whose schedules can be explored. */
export class ScopeModel implements Model {
  readonly #scope: Scope;
  readonly #crash: Crash | undefined;
  readonly #canary: Canary | undefined;
  readonly #parameters: PoolParameters;
  readonly #memory: AdversaryMemory;
  readonly #thread = currentThread();
  #clients: ScopeClient[] = [];
  #pools: LocalPool[] = [];
  #records: CallRecord[] = [];
  #entry: CatalogEntry | undefined;
  #now = 0;
  #clock = new RunClock();
  /** Where a sample meets a record. */
  #part = 0;
  #failure: VerificationFailure | undefined;
  /** Many executions leave the same memory: what audits have seen, by what they looked at. */
  readonly #audited = new Map<string, readonly Sight[]>();
  /** What the step under way touches. */
  #words: number[] = [];
  #kinds: number[] = [];
  /** The words that a client which dies first has changed, with what it has left there. */
  readonly #left = new Map<Address, bigint | undefined>();
  cut = false;
  /** Executions in which the crash happened. */
  crashes = 0;
  longest = 0;

  constructor(scope: Scope, { crash, canary }: { crash?: Crash; canary?: Canary } = {}) {
    this.#scope = scope;
    const nodes = scope.migrates ? 2 : 1;
    this.#parameters = nodes === 1 ? PARAMETERS : { ...PARAMETERS, regionsMax: nodes, nodes };
    this.#memory = new AdversaryMemory(nodes, PARAMETERS.regionBytes);
    this.#crash = crash;
    this.#canary = canary;
  }

  begin(): void {
    this.#memory.reset();
    this.#clients = [];
    this.#pools = [];
    this.#records = [];
    this.#now = 0;
    this.#clock = new RunClock();
    this.#failure = undefined;
    this.#left.clear();
    this.cut = false;
    this.#memory.put(0, formatSuperblock(this.#parameters));
    const creator = this.#attach();
    const { subject, parameters, clients, grown, migrates, lead } = this.#scope;
    this.#entry = creator.run(createStore(creator, 's', subject.kind, parameters));
    if (expires(this.#scope)) creator.run(creator.catalog.noteTimed(this.#entry.id));
    creator.run(creator.reclamation.quiesce());
    this.#prepare(creator);
    const oracle = this.#watch();
    const inFlight = compacts(this.#scope) ? this.#inFlight() : undefined;
    clients.forEach((planned, i) => {
      const pool = i === 0 ? creator : this.#attach();
      pool.run(pool.reclamation.quiesce());
      const actions = this.#placed(planned, creator);
      this.#canary?.pool?.(pool);
      oracle.watch(i, pool);
      this.#noteFrees(pool);
      const { client, after } = this.#crash ?? { client: -1, after: 0 };
      const diesAfter = client === i ? after : Number.POSITIVE_INFINITY;
      const index = this.#open(pool);
      if (actions.some(isWithoutMemory)) this.#scope.subject.leaveNothing?.(index);
      const log = this.#log();
      const near = this.#scope.near ? nearReadsOf(pool, index, this.#canary) : undefined;
      this.#clients.push(new ScopeClient(i, pool, index, actions, log, diesAfter, inFlight, near));
    });
    if (grown) this.#grow();
    if (migrates) this.#choose();
    // The lead comes after everything that was done before the others came.
    this.#now++;
    this.#clients[clients.length - 1].lead(lead);
  }

  #attach(): LocalPool {
    const number = this.#pools.length;
    const fabric = new AdversaryFabric(this.#memory, number);
    const thread = { ...this.#thread, tid: 1 + number };
    const pool = new LocalPool(fabric, this.#parameters, this.#memory.source, thread);
    pool.membership.liveness = (row) => (this.#isDead(row) ? 'gone' : 'alive');
    pool.timer.now = countingTimer();
    pool.clock.now = () => this.#time();
    pool.join(`c${number}`);
    this.#pools.push(pool);
    return pool;
  }

  #isDead({ id, incarnation }: ClientRow): boolean {
    return this.#clients.some(
      ({ dead, pool: { membership } }) =>
        dead && membership.id === id && membership.incarnation === incarnation,
    );
  }

  /** In the last lines of the pool, which no scope fills. */
  #inFlight(): InFlight {
    const clients = this.#scope.clients.length;
    const at = PARAMETERS.regionBytes - UNIT_BYTES * clients;
    return new InFlight(at, clients, (client) => this.#clients[client].dead);
  }

  #open(pool: LocalPool): Index {
    const entry = this.#entry as CatalogEntry;
    pool.run(pool.membership.nameStore(entry.id, true));
    const opened = pool.run(openIndex(pool, entry));
    const index = planted(opened, pool, this.#canary);
    this.#scope.subject.hurry(index);
    const stocking = this.#scope.subject.stock?.(index);
    if (stocking !== undefined) pool.run(stocking);
    return index;
  }

  #grow(): void {
    const [{ index, pool }] = this.#clients;
    const growing = this.#scope.subject.grow?.(index);
    if (growing) pool.run(growing);
  }

  /** The index is to be on the other memory node; nothing is moved by that alone. */
  #choose(): void {
    const [{ index, pool }] = this.#clients;
    if (!isPlaced(index)) throw new Error('an index that is not placed cannot migrate');
    const { placement } = index;
    const before = pool.run(placement.shares()).filter(({ parts }) => parts > 0);
    pool.run(placement.changeNodes((nodes) => nodes.filter((node) => node !== before[0].node)));
  }

  #time(): number {
    this.#touch(CLOCK, LOAD);
    return this.#clock.now;
  }

  /** To everybody at once, and to the checker: to it as if it were a call on every key. */
  *#expire(): Operation<void> {
    this.#clock.pass(this.#now);
    this.#touch(CLOCK, STORE);
    this.#scope.keys.forEach((_, key) => {
      this.#touch(-1 - key, INVOKE);
      this.#touch(-1 - key, RETURN);
    });
  }

  /** The actions, with samples of a part of the index where there is something to be met. */
  #placed(actions: readonly ScopeAction[], pool: LocalPool): ScopeAction[] {
    return actions.map((action) => {
      const isSampled = typeof action === 'object' && 'sampled' in action && action.sampled === MET;
      return isSampled ? { ...action, sampled: this.#findPlace(pool) } : action;
    });
  }

  #findPlace(pool: LocalPool): number {
    const index = this.#open(pool);
    for (; this.#part < PARTS; this.#part++) {
      const place = this.#part / PARTS;
      let met = 0;
      pool.run(sampleOf(index, index.newRequest(), [place], 1, () => met++));
      if (met > 0) return place;
    }
    throw new Error('no sample meets the record');
  }

  #prepare(pool: LocalPool): void {
    const caller = new Caller('before', this.#open(pool), this.#log());
    for (const call of this.#scope.before) pool.run(caller.perform(call));
  }

  /** Time is the number of steps; invocations and responses are told to the explorer. */
  #log(): ScopeLog {
    return {
      keys: this.#scope.keys,
      now: () => this.#now,
      clock: this.#clock,
      record: (record) => this.#record(record),
      expire: () => this.#expire(),
    };
  }

  #record(record: CallRecord): void {
    record.ownVersions = this.#scope.subject.ownVersions ?? false;
    this.#records.push(record);
    this.#touch(-1 - record.call.key, INVOKE);
  }

  #touch(word: number, kind: number): void {
    this.#words.push(word);
    this.#kinds.push(kind);
  }

  /** The reclamation oracle, with the accesses of every step noted on their way to it. */
  #watch(): ReclamationOracle {
    const { subject } = this.#scope;
    const layout = new PoolLayout(this.#parameters);
    const word = (address: Address) => this.#memory.word(address);
    const oracle = new ReclamationOracle(
      this.#memory,
      {
        now: () => this.#now,
        lastStep: () => this.#now,
        inOperation: () => [],
        blockOf: (address) => blockOf(layout, word, address),
      },
      (text) => {
        this.#failure ??= new VerificationFailure('reclamation', text);
      },
      // Grace is a matter of time, which steps that commute do not keep: its consequences count.
      {
        grace: false,
        // A near read reads the header of a record beside its slot, and discards it then.
        readsAhead: (units) =>
          (this.#scope.near && units === 1) || subject.readsAhead?.(units) === true,
        locksAhead: subject.locksAhead,
        // A record that notes its uses is written as long as a client that has found it may be.
        overwrites: (units) =>
          notesUses(this.#scope) || subject.overwrites?.(units, this.#parameters.nodes) === true,
      },
    );
    this.#memory.observer = {
      onAccess: (client, kind, address, words) => {
        const isLeft = kind !== READ && this.#runsFirst(client);
        for (let at = address; at < address + WORD * words; at += WORD) {
          this.#touch(at / WORD, kind === READ ? LOAD : STORE);
          if (isLeft) this.#left.set(at, undefined);
        }
        oracle.onAccess(client, kind, address, words);
      },
    };
    return oracle;
  }

  /** A block that is given back is poisoned: a change of memory by no verb. */
  #noteFrees({ allocator }: LocalPool): void {
    const free = allocator.free.bind(allocator);
    allocator.free = (address, units, catalog) => {
      for (let at = 0; at < units * UNIT_BYTES; at += WORD)
        this.#touch((address + at) / WORD, STORE);
      free(address, units, catalog);
    };
  }

  enabled(): readonly StepId[] {
    const names: number[] = [];
    if (this.cut || this.#failure) return names;
    for (const client of this.#clients)
      if (this.#runsFirst(client.number)) client.addEnabled(names);
    if (names.length > 0) return names;
    for (const [address, left] of this.#left) {
      if (left === undefined) this.#left.set(address, this.#memory.word(address));
    }
    const { patient } = this.#scope;
    const waiting = this.#clients.filter((client) => patient && this.#waits(client));
    for (const client of this.#clients) if (!waiting.includes(client)) client.addEnabled(names);
    // No client is left that could change what they wait for: their patience ends.
    if (names.length === 0) for (const client of waiting) client.addEnabled(names);
    return names;
  }

  #runsFirst(client: number): boolean {
    return this.#crash?.first === true && this.#crash.client === client;
  }

  /** A word left by a dead client changes only if its pollers change it, so they do not wait. */
  #waits({ waits, polled }: ScopeClient): boolean {
    return waits && this.#left.get(polled as Address) !== this.#memory.word(polled as Address);
  }

  perform(id: StepId): Step {
    this.#words = [];
    this.#kinds = [];
    this.#now++;
    const client = this.#clients[clientOf(id)];
    const before = client.caller.current;
    const polled = client.polled;
    if (polled !== undefined) this.#touch(polled / WORD, LOAD);
    const after = this.#try(client, id);
    if (before !== undefined && before !== client.caller.current) {
      this.#touch(-1 - before.call.key, RETURN);
    }
    // Adding up counters takes long, and only a client that goes on changes its own.
    const tooOften = isPosting(id) && client.retries > this.#scope.retriesMax;
    if (tooOften || this.#now > STEPS_MAX) this.cut = true;
    return { after, words: this.#words, kinds: this.#kinds };
  }

  #try(client: ScopeClient, id: StepId): number[] {
    try {
      return client.perform(id);
    } catch (error) {
      const { message, stack } = error as Error;
      this.#failure ??= new VerificationFailure('error', `${message}\n${stack}`, error);
      return [];
    }
  }

  verdict(): string | undefined {
    this.longest = Math.max(this.longest, this.#now);
    if (this.#clients.some(({ dead }) => dead)) this.crashes++;
    try {
      if (this.#failure) throw this.#failure;
      this.#audit();
      return undefined;
    } catch (error) {
      const { message, stack } = error as Error;
      const kind = error instanceof VerificationFailure ? error.kind : 'error';
      const text = error instanceof VerificationFailure ? message : `${message}\n${stack}`;
      return `${kind}: ${text}\n${timeline(this.#records, this.#scope.keys)}`;
    }
  }

  #audit(): void {
    this.#memory.observer = undefined;
    auditReclamation(this.#clients.filter(({ dead }) => !dead).map(({ pool }) => pool));
    this.#now++;
    const end = this.#end();
    const known = this.#audited.get(end);
    if (known === undefined) this.#audited.set(end, this.#auditMemory());
    else for (const sight of known) this.#seeAgain(sight);
    auditHistories(this.#records, this.#scope.keys);
  }

  /** All that an audit of the memory depends on. */
  #end(): string {
    const dead = this.#clients.map(({ dead }) => Number(dead)).join('');
    return `${dead} ${this.#clock.now} ${this.#memory.digest()}`;
  }

  /** Returns what every key holds. */
  #auditMemory(): Sight[] {
    const { length } = this.#records;
    const pool = this.#attach();
    auditStructure(pool);
    auditKeys(pool, this.#open(pool), this.#log());
    if (compacts(this.#scope)) this.#compactAgain(pool);
    return this.#records.slice(length).map(({ call: { key }, result }) => {
      return { key, found: result?.found };
    });
  }

  #seeAgain({ key, found }: Sight): void {
    const at = this.#now;
    const call = { key, kind: 'search' } as const;
    this.#record(CallRecord.seen('audit', call, found, at, at, this.#clock));
  }

  /** Where a client died as it compacted, the next one does: from whatever it has left. */
  #compactAgain(pool: LocalPool): void {
    const index = this.#open(pool);
    pool.run(pool.reclamation.quiesce());
    pool.run(compact(pool, index, atOnce));
    auditStructure(pool);
    auditKeys(pool, index, this.#log());
  }
}

function* atOnce(): Operation<boolean> {
  yield* [];
  return true;
}

/** Which client a step is of. */
export function clientOf(id: StepId): number {
  return Math.floor(id / 2 ** 32);
}
