import { StepwellError } from '../errors.ts';
import { INSERTED, type Outcome, REFUSED, REPLACED } from '../indexes/contract.ts';
import type { RaceIndex } from '../indexes/race/race.ts';
import type { RaceRequest } from '../indexes/race/table.ts';
import { SUPERBLOCK } from '../pool/layout.ts';
import type { ClientRow } from '../pool/membership.ts';
import type { Pool } from '../pool/pool.ts';
import type { Prng } from '../random/prng.ts';
import { decodeFrom } from '../records/codec.ts';
import type { Address, Operation } from '../verbs/index.ts';
import { type AdversaryFabric, Execution } from './adversary.ts';
import { type Call, CallRecord, type KeyState, type Note, type Result } from './history.ts';
import { type ClientPlan, LAST_SEEN, type ProgramItem } from './scenario.ts';

/** Errors that promise that the operation did nothing. */
const HARMLESS = new Set(['SW_POOL_FULL', 'SW_INDEX_FULL']);

export interface ClientContext {
  now(): number;
  keys: readonly string[];
  prng: Prng;
  record(record: CallRecord): void;
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
  readonly #request: RaceRequest;
  readonly #seen = new Map<number, number>();
  readonly #items: ProgramItem[];
  #at = 0;
  #pending: Operation<void>[] = [];
  #running: Operation<void> | undefined;
  #execution: Execution | undefined;
  #record: CallRecord | undefined;
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
    this.#request = index.newRequest();
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
    return this.#record?.invoked;
  }

  die(): void {
    this.dead = true;
    this.diedAt = this.#context.now();
    if (this.#record) this.#record.crashed = true;
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
    return this.#perform(item.call);
  }

  #advance(): void {
    const { done, value } = (this.#running as Operation<void>).next();
    if (done) this.#running = undefined;
    else this.#execution = new Execution(this.#fabric, value, this.#context.prng);
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

  *#perform(planned: Call): Operation<void> {
    const call = this.#concrete(planned);
    const record = new CallRecord(this.name, call, this.#context.now());
    this.#record = record;
    this.#context.record(record);
    try {
      record.result = yield* this.#run(call);
      record.responded = this.#context.now();
    } catch (error) {
      if (!(error instanceof StepwellError && HARMLESS.has(error.code))) throw error;
      record.refusedBy = error.code;
      record.responded = this.#context.now();
    }
    this.#record = undefined;
    if (record.result) this.#remember(record.result, call.key);
  }

  #concrete(call: Call): Call {
    if (call.kind !== 'write' || call.expected !== LAST_SEEN) return call;
    return { ...call, expected: this.#seen.get(call.key) ?? 0 };
  }

  #remember({ found, version, outcome }: Result, key: number): void {
    if (outcome === INSERTED) this.#seen.set(key, version);
    else if (found) this.#seen.set(key, found.version);
  }

  *#run(call: Call): Operation<Result> {
    const request = this.#request;
    const { records } = this.index.table;
    const key = this.#context.keys[call.key];
    const seed = this.index.hashSeed;
    if (call.kind === 'write') {
      records.encode(request, key, call.value, seed, call.version);
      const outcome = yield* this.index.write(request, call.condition, call.expected);
      const found = outcome !== INSERTED && request.foundAt >= 0;
      return this.#result(request, outcome, found);
    }
    request.setKey(key, seed, 32);
    if (call.kind === 'search' || call.kind === 'remove') {
      const present =
        call.kind === 'search'
          ? yield* this.index.search(request)
          : yield* this.index.remove(request);
      return this.#result(request, present ? REPLACED : REFUSED, present);
    }
    const compute = (present: boolean) => {
      const next = present ? String(Number(textOf(request)) + 1) : call.value;
      records.encodeValue(request, next, call.version);
    };
    const outcome = yield* this.index.modify(request, compute);
    return this.#result(request, outcome, outcome === REPLACED);
  }

  #result(request: RaceRequest, outcome: Outcome, isFound: boolean): Result {
    let found: KeyState;
    if (isFound) {
      this.index.table.records.check(request);
      found = { value: textOf(request), version: request.foundVersion };
    }
    return { outcome, found, version: request.outgoingVersion };
  }
}

function textOf({ found, foundValueAt, foundValueBytes, foundCodec }: RaceRequest): string {
  return String(decodeFrom(found, foundValueAt, foundValueBytes, foundCodec));
}
