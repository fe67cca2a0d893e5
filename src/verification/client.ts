import type { RaceIndex } from '../indexes/race/race.ts';
import { SUPERBLOCK } from '../pool/layout.ts';
import type { ClientRow } from '../pool/membership.ts';
import type { Pool } from '../pool/pool.ts';
import type { Prng } from '../random/prng.ts';
import type { Address, Operation } from '../verbs/index.ts';
import type { AdversaryFabric } from './adversary.ts';
import { Caller, type CallLog } from './caller.ts';
import { RandomExecution } from './chance.ts';
import type { Note } from './history.ts';
import type { ClientPlan, ProgramItem } from './scenario.ts';

export interface ClientContext extends CallLog {
  prng: Prng;
  note(note: Note): void;
  /** What the pool's memory holds, outside of the schedule. */
  peek(address: Address): bigint;
  /** A dead client whose death has been noticed and that this client may clean up after. */
  nextRecovery(client: SimulatedClient): ClientRow | undefined;
  recovered(row: ClientRow): void;
}

/** One client of the pool that runs its program a piece at a time. */
export class SimulatedClient {
  readonly name: string;
  readonly number: number;
  readonly pool: Pool;
  readonly index: RaceIndex;
  readonly plan: ClientPlan;
  readonly #context: ClientContext;
  readonly #fabric: AdversaryFabric;
  readonly #caller: Caller;
  readonly #items: ProgramItem[];
  #at = 0;
  #pending: Operation<void>[] = [];
  #running: Operation<void> | undefined;
  #execution: RandomExecution | undefined;
  #online = false;
  pieces = 0;
  lastStep = 0;
  dead = false;
  diedAt = 0;
  paused = false;

  constructor(
    number: number,
    pool: Pool,
    index: RaceIndex,
    plan: ClientPlan,
    context: ClientContext,
  ) {
    this.name = `c${number}`;
    this.number = number;
    this.pool = pool;
    this.index = index;
    this.plan = plan;
    this.#items = plan.items;
    this.#context = context;
    this.#fabric = pool.fabric as AdversaryFabric;
    this.#caller = new Caller(this.name, index, context);
  }

  get done(): boolean {
    return this.#running === undefined && this.#at === this.#items.length && this.#idle();
  }

  #idle(): boolean {
    return this.#pending.length === 0;
  }

  get rest(): ProgramItem[] {
    return this.#items.slice(this.#at);
  }

  /** When the operation that is in flight began; undefined between operations. */
  get operationSince(): number | undefined {
    return this.#caller.current?.invoked;
  }

  die(): void {
    this.dead = true;
    this.diedAt = this.#context.now();
    if (this.#caller.current) this.#caller.current.crashed = true;
  }

  /** Lets one piece happen, or begins the next thing to do. */
  step(): void {
    this.paused = false;
    if (this.#execution !== undefined) {
      this.#execution.step();
      this.pieces++;
      this.lastStep = this.#context.now();
      this.paused = this.#execution.paused;
      if (!this.#execution.finished) return;
      this.#execution = undefined;
      this.#advance();
    } else {
      this.#begin();
    }
  }

  #begin(): void {
    const row = this.#context.nextRecovery(this);
    if (row !== undefined)
      this.#pending.unshift(this.#noted(`recovers client ${row.id}`, this.#recover(row)));
    this.#running = this.#pending.shift() ?? this.#nextItem();
    if (this.#running !== undefined) this.#advance();
  }

  #nextItem(): Operation<void> | undefined {
    if (this.#at === this.#items.length) return undefined;
    // As Pool.enter does: an epoch is announced before the first operation after an idle time.
    if (!this.#online) {
      this.#online = true;
      return this.#noted('begins a burst', this.pool.reclamation.quiesce());
    }
    const item = this.#items[this.#at++];
    if (item.after !== 'none') this.#pending.push(this.#noted(item.after, this.#pause(item.after)));
    return this.#caller.perform(item.call);
  }

  #advance(): void {
    const { done, value } = (this.#running as Operation<void>).next();
    if (done) this.#running = undefined;
    else this.#execution = new RandomExecution(this.#fabric, value, this.#context.prng);
  }

  *#noted(text: string, operation: Operation<void>): Operation<void> {
    const { now, peek } = this.#context;
    const note = { client: this.name, invoked: now(), responded: Number.POSITIVE_INFINITY, text };
    this.#context.note(note);
    yield* operation;
    note.responded = now();
    const announced = peek(this.pool.membership.epochWord);
    note.text += `; announced ${announced}, epoch ${peek(SUPERBLOCK.epoch)}`;
  }

  *#pause(kind: ProgramItem['after']): Operation<void> {
    const { reclamation } = this.pool;
    if (kind === 'offline') {
      this.#online = false;
      yield* reclamation.goOffline();
      yield* reclamation.collect();
      return;
    }
    yield* reclamation.quiesce();
    if (kind === 'collect') yield* reclamation.collect();
  }

  /** What Pool does when it finds that a client is gone; there it may not be interleaved. */
  *#recover(row: ClientRow): Operation<void> {
    const { membership, chunks } = this.pool;
    if (!(yield* membership.claimRecovery(row))) return;
    yield* chunks.orphan(row.id, row.incarnation);
    yield* membership.finishRecovery(row);
    this.#context.recovered(row);
  }
}
