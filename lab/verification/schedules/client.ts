import { hasCode, StepwellError } from '../../../src/errors.ts';
import type { Index } from '../../../src/indexes/contract.ts';
import { sweep } from '../../../src/indexes/sweep.ts';
import { SUPERBLOCK } from '../../../src/pool/layout.ts';
import type { LocalPool } from '../../../src/pool/local-pool.ts';
import { recycleEmptied } from '../../../src/pool/memory/emptied-chunks.ts';
import type { Prng } from '../../../src/random/prng.ts';
import { ExpirySweep } from '../../../src/store/calls/expiry-sweep.ts';
import type { NearReads } from '../../../src/store/near/near-reads.ts';
import type { Address, Operation } from '../../../src/verbs/index.ts';
import type { Call, Note } from '../checks/history.ts';
import type { AdversaryFabric } from './adversary.ts';
import { Caller, type CallLog, HARMLESS, isHaste } from './caller.ts';
import { Lane } from './lane.ts';
import { ManySearch } from './many-search.ts';
import type { ClientPlan, Pause, Phase, ProgramItem } from './scenario.ts';
import { CHUNKS_MAX } from './swarm.ts';
import { Walker, type WalkForm, type WalkOrder } from './walker.ts';

export interface ClientContext extends CallLog {
  /** Whether the index's walks meet each key exactly once. */
  walksOnce: boolean;
  prng: Prng;
  note(note: Note): void;
  /** What the pool's memory holds, outside of the schedule. */
  peek(address: Address): bigint;
  /** Makes a client's near reads, if it is to have any. */
  near?: (pool: LocalPool, index: Index) => NearReads | undefined;
  /** Whether records expire. */
  expires: boolean;
  /** The clock passes the next deadline. */
  expire(): void;
  /** Acts as a server for a while. */
  serve(index: Index): Operation<void>;
  /** Joins the pool and opens the store. */
  startup(client: SimulatedClient): Operation<Index>;
  /** Whether the client knows of a death after which it has not cleaned up. */
  mayRecover(client: SimulatedClient): boolean;
  recovers(client: SimulatedClient): void;
}

/** What a client does between its operations, when none is in flight. */
interface Duty {
  phase: Phase;
  text: string;
  operation: Operation<void>;
}

/** How a client walks, in turn. */
const ORDERS: readonly WalkOrder[] = ['any', 'forward', 'reverse'];

/** A write that finds the pool full is repeated after each of these, as in full-pool.ts. */
const REMEDIES = ['offline', 'expire', 'sweep'] as const;

/**
 * One client of the pool that runs its program a piece at a time. Its lanes share the pool handle,
 * the allocator, the directory cache and the announced epoch, as the operations of `setMany` do.
 * Duties wait until no lane has an operation in flight, and no operation begins before they end.
 */
export class SimulatedClient {
  readonly name: string;
  readonly number: number;
  readonly pool: LocalPool;
  readonly plan: ClientPlan;
  readonly #context: ClientContext;
  readonly #lanes: Lane[];
  readonly #callers: Caller[] = [];
  readonly #walkers: (Walker | undefined)[] = [];
  readonly #batches: (ManySearch | undefined)[] = [];
  /** When the sections of its sweeps of expired records began. */
  readonly #sections: (number | undefined)[] = [];
  readonly #items: ProgramItem[];
  readonly #duties: Duty[] = [];
  #index: Index | undefined;
  #online = false;
  #serves = false;
  #phase: Phase = 'call';
  #piecesInPhase = 0;
  #pieces = 0;
  lastStep = 0;
  dead = false;
  diedAt = 0;
  /** The client has left the pool; the rest of its program is dropped. */
  left = false;
  /** The client has noticed that it was declared dead. */
  expelled = false;
  /** The client was declared dead while suspended; see ClientPlan.freezesBelow. */
  frozen = false;
  startedAt = 0;
  sweeps = 0;
  walks = 0;
  /** Walks and other items besides calls that it has given up. */
  gaveUp = 0;

  constructor(number: number, pool: LocalPool, plan: ClientPlan, context: ClientContext) {
    this.name = `c${number}`;
    this.number = number;
    this.pool = pool;
    this.plan = plan;
    this.#items = [...plan.items];
    this.#context = context;
    const fabric = pool.fabric as AdversaryFabric;
    this.#lanes = Array.from({ length: plan.lanes }, () => new Lane(fabric, context.prng));
  }

  get index(): Index | undefined {
    return this.#index;
  }

  /** The part of the program that no lane has started. */
  get rest(): ProgramItem[] {
    return this.#items;
  }

  /** When the operations that are in flight began. */
  get operationsSince(): number[] {
    const calls = this.#callers.map(({ current }) => current?.invoked);
    const steps = this.#walkers.map((walker) => walker?.since);
    const batches = this.#batches.map((batch) => batch?.since);
    const all = [...calls, ...steps, ...batches, ...this.#sections];
    return all.filter((since) => since !== undefined);
  }

  /** Whether it removes expired records, which is no call of its program. */
  get sweepsExpired(): boolean {
    return this.#sections.some((since) => since !== undefined);
  }

  /** Whether it must die now. */
  get doomed(): boolean {
    const crash = this.plan.crashes[0];
    if (crash === undefined) return false;
    if (crash.phase === 'call') return this.#pieces >= crash.pieces;
    return this.#phase === crash.phase && this.#piecesInPhase >= crash.pieces;
  }

  /** All lanes stop where they are. */
  die(): void {
    this.dead = true;
    this.diedAt = this.#context.now();
    for (const { current } of this.#callers) if (current) current.crashed = true;
  }

  /** Outside of the schedule. */
  startAtOnce(): void {
    this.pool.run(this.#start());
  }

  /** Without haste: a client that gives up its sweep recovers nothing. */
  sweepAtOnce(open: (pool: LocalPool) => Index): void {
    this.pool.run(this.#sweep(this.plan.haste > 0 ? open(this.pool) : undefined));
  }

  get atDuty(): boolean {
    return this.#phase !== 'call' && this.busy().length > 0;
  }

  /** Whether no lane is in the midst of a batch. */
  get isBetween(): boolean {
    return this.dead || this.#lanes.every((lane) => lane.isBetween);
  }

  /** Lanes with an operation in flight. */
  busy(): number[] {
    const busy: number[] = [];
    for (let i = 0; i < this.#lanes.length; i++) if (!this.#lanes[i].idle) busy.push(i);
    return busy;
  }

  /** Lanes that can continue or start an operation. */
  ready(): number[] {
    if (this.dead || this.left || this.frozen) return [];
    const busy = this.busy();
    if (busy.length > 0 && this.#phase !== 'call') return busy;
    if (this.#dutyIsDue(busy.length === 0)) return busy.length > 0 ? busy : [0];
    const free = this.#lanes.findIndex(({ idle }, i) => idle && this.#hasWorkFor(i));
    return free < 0 ? busy : [...busy, free];
  }

  #hasWorkFor(lane: number): boolean {
    return this.#walkers[lane] !== undefined || this.#items.length > 0;
  }

  get #hasWork(): boolean {
    return this.#items.length > 0 || this.#walkers.some((walker) => walker !== undefined);
  }

  #dutyIsDue(allIdle: boolean): boolean {
    if (this.#duties.length > 0 || this.#index === undefined) return true;
    if (allIdle && this.#context.mayRecover(this)) return true;
    return this.#hasWork ? !this.#online : this.plan.leaves && !this.left;
  }

  /** Executes one piece of a lane, or starts its next item. Returns whether time passed. */
  step(at: number): boolean {
    const lane = this.#lanes[at];
    if (lane.idle) {
      this.#begin(at);
      return false;
    }
    this.#pieces++;
    this.#piecesInPhase++;
    this.lastStep = this.#context.now();
    lane.step();
    return lane.paused;
  }

  #begin(at: number): void {
    const duty = this.busy().length === 0 ? this.#nextDuty() : undefined;
    this.#phase = duty?.phase ?? 'call';
    this.#piecesInPhase = 0;
    this.#lanes[at].begin(duty ? this.#perform(duty) : this.#nextOperation(at));
  }

  /** May be called only while no operation is in flight. */
  #nextDuty(): Duty | undefined {
    if (this.#index === undefined) return this.#duty('startup', this.#start());
    if (this.#context.mayRecover(this)) {
      this.#context.recovers(this);
      return this.#duty(
        'recovery',
        this.pool.recovering(() => true),
      );
    }
    const next = this.#duties.shift();
    if (next !== undefined) return next;
    // As LocalPool.enter does: an epoch is announced before the first operation after an idle time.
    if (this.#hasWork) return this.#online ? undefined : this.#duty('burst', this.#comeOnline());
    return this.plan.leaves ? this.#duty('departure', this.#depart()) : undefined;
  }

  #duty(phase: Phase, operation: Operation<void>, text: string = phase): Duty {
    return { phase, text, operation };
  }

  #nextOperation(at: number): Operation<void> {
    const walker = this.#walkers[at];
    if (walker) return this.#walkOn(walker, at);
    const item = this.#items.shift() as ProgramItem;
    if (item.after !== 'none') this.#duties.push(this.#duty('pause', this.#pause(item.after)));
    if (item.call === 'many') return this.#searchMany(at);
    if (item.call === 'serve') return this.#serve();
    if (item.call === 'expire') return this.#expire();
    if (item.call === 'turn') return this.#turn(at);
    if (item.call !== 'walk') return this.#call(item, item.call, this.#callers[at]);
    this.walks++;
    const how = { once: this.#context.walksOnce, form: this.#walkForm() };
    return this.#walkOn(new Walker(this.name, this.#index as Index, this.#context, how), at);
  }

  *#expire(): Operation<void> {
    yield* [];
    this.#context.expire();
  }

  *#turn(at: number): Operation<void> {
    this.#context.clock.turn();
    yield* this.#removing(this.#expirySweep(at).turn());
  }

  #expirySweep(lane: number): ExpirySweep {
    const sections = this.#sections;
    const { now } = this.#context;
    const section = {
      pool: this.pool,
      *enter() {
        yield* [];
        sections[lane] = now();
      },
      exit() {
        sections[lane] = undefined;
      },
    };
    return new ExpirySweep(section, this.#index as Index);
  }

  /** Leaves records that it cannot remove to the next sweep, as `repeat` does. */
  *#removing(sweeping: Operation<number>): Operation<void> {
    try {
      yield* this.#patiently(sweeping);
    } catch (error) {
      if (!(error instanceof StepwellError) || !HARMLESS.has(error.code)) throw error;
    }
  }

  /** Makes room in a full pool. */
  *#relieve(): Operation<void> {
    const { reclamation } = this.pool;
    const collect = function* () {
      yield* reclamation.quiesce();
      yield* reclamation.collect();
      return true;
    };
    this.#online = true;
    yield* reclamation.quiesce();
    yield* this.#removing(this.#expirySweep(0).removeSome(Number.POSITIVE_INFINITY, collect));
    yield* collect();
  }

  /** A process has at most one server of a store. */
  *#serve(): Operation<void> {
    if (this.#serves) return;
    this.#serves = true;
    try {
      yield* this.#patiently(this.#context.serve(this.#index as Index));
    } finally {
      this.#serves = false;
    }
  }

  /** All orders, each without and with a limit, and a key to begin at. */
  #walkForm(): WalkForm {
    const turn = this.walks + this.number;
    const { keys } = this.#context;
    return {
      order: ORDERS[turn % ORDERS.length],
      limit: turn % 2 === 0 ? undefined : 1 + (turn % 5),
      first: turn % 4 < 2 ? undefined : keys[turn % keys.length],
    };
  }

  *#walkOn(walker: Walker, at: number): Operation<void> {
    this.#walkers[at] = walker;
    const isWhole = yield* this.#patiently(walker.step());
    if (walker.done || !isWhole) this.#walkers[at] = undefined;
  }

  *#searchMany(at: number): Operation<void> {
    const batch = new ManySearch(this.name, this.#index as Index, this.#context);
    this.#batches[at] = batch;
    yield* this.#patiently(batch.run());
    this.#batches[at] = undefined;
  }

  /** Returns false if a hasty client has given it up. */
  *#patiently(operation: Operation<unknown>): Operation<boolean> {
    try {
      yield* operation;
      return true;
    } catch (error) {
      if (this.plan.haste === 0 || !isHaste(error)) throw error;
      this.gaveUp++;
      return false;
    }
  }

  *#call(item: ProgramItem, call: Call, caller: Caller): Operation<void> {
    yield* caller.perform(call);
    if (!caller.refused || !this.plan.insists) return;
    const remedies = REMEDIES.filter((one) => this.#context.expires || one !== 'expire');
    const remedy = remedies[item.remedies ?? 0];
    if (remedy === undefined) return;
    this.#items.unshift({ ...item, after: 'none', remedies: (item.remedies ?? 0) + 1 });
    if (remedy === 'sweep') this.#duties.push(this.#duty('sweep', this.#sweep()));
    else if (remedy === 'expire') this.#duties.push(this.#duty('sweep', this.#relieve()));
    else this.#duties.push(this.#duty('pause', this.#reclaim()));
  }

  /** As `Pool.reclaiming`, but without its longer wait for other clients. */
  *#reclaim(): Operation<void> {
    yield* this.pool.reclamation.quiesce();
    yield* this.pool.allocator.surrender();
    yield* recycleEmptied(this.pool, CHUNKS_MAX);
    yield* this.#pause('offline');
  }

  *#perform({ text, operation }: Duty): Operation<void> {
    const { now, peek } = this.#context;
    const note = { client: this.name, invoked: now(), responded: Number.POSITIVE_INFINITY, text };
    this.#context.note(note);
    try {
      yield* operation;
    } catch (error) {
      if (!hasCode(error, 'SW_REVOKED')) throw error;
      note.text += '; notices that it was declared dead';
      this.#leaveExpelled();
    }
    note.responded = now();
    const { membership } = this.pool;
    // One that has left has no row.
    const announced = membership.id === 0 ? 0 : peek(membership.epochWord);
    note.text += `; announced ${announced}, epoch ${peek(SUPERBLOCK.epoch)}`;
  }

  /** Such a client can do nothing but close the pool; a new one continues its program. */
  #leaveExpelled(): void {
    this.expelled = true;
    this.#duties.length = 0;
    this.#duties.push(this.#duty('departure', this.#depart()));
  }

  *#start(): Operation<void> {
    const index = yield* this.#context.startup(this);
    this.#index = index;
    if (this.plan.haste > 0) this.#noteGivenUp(index);
    this.startedAt = this.#context.now();
    // Lanes of a client share it, as the calls of a handle do.
    const near = this.#context.near?.(this.pool, index);
    for (let i = 0; i < this.#lanes.length; i++) {
      this.#callers.push(new Caller(this.name, index, this.#context, near));
    }
  }

  /** A sweep of expired records that makes room goes on after a removal that it has given up. */
  #noteGivenUp(index: Index): void {
    const remove = index.remove.bind(index);
    const giveUp = () => this.gaveUp++;
    index.remove = function* (...removal) {
      try {
        return yield* remove(...removal);
      } catch (error) {
        if (isHaste(error)) giveUp();
        throw error;
      }
    };
  }

  *#comeOnline(): Operation<void> {
    yield* this.pool.reclamation.quiesce();
    this.#online = true;
    yield* this.pool.recyclingOwn();
    yield* this.pool.prefetchBlocks();
  }

  *#pause(kind: Pause): Operation<void> {
    const { reclamation } = this.pool;
    if (kind === 'offline') {
      this.#online = false;
      yield* reclamation.goOffline();
      yield* this.pool.collectIdle();
      this.frozen = this.#items.length < this.plan.freezesBelow;
      // The timer of an idle client: LocalPool collects without asking for an operation.
      if (this.frozen) this.#duties.unshift(this.#duty('pause', this.pool.collectIdle()));
      return;
    }
    yield* reclamation.quiesce();
    yield* this.pool.recyclingOwn();
    if (kind === 'collect') yield* reclamation.collect();
  }

  *#sweep(index = this.#index as Index): Operation<void> {
    this.sweeps++;
    this.#online = false;
    yield* this.#patiently(sweep(this.pool, index));
  }

  *#depart(): Operation<void> {
    this.#online = false;
    yield* this.pool.departing();
    this.left = true;
  }
}
