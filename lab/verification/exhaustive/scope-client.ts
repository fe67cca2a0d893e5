import { StepwellError } from '../../../src/errors.ts';
import { type Index, isPlaced } from '../../../src/indexes/contract.ts';
import type { LocalPool } from '../../../src/pool/local-pool.ts';
import { ExpirySweep } from '../../../src/store/calls/expiry-sweep.ts';
import type { NearReads } from '../../../src/store/near/near-reads.ts';
import {
  type Address,
  type Batch,
  CAS,
  FAA,
  type Operation,
  PAUSE,
  READ,
  WRITE,
} from '../../../src/verbs/index.ts';
import { retriesOf } from '../../support/counters.ts';
import type { Call } from '../checks/history.ts';
import { type AdversaryFabric, Execution, WORD } from '../schedules/adversary.ts';
import { Caller, type CallLog } from '../schedules/caller.ts';
import { Walker } from '../schedules/walker.ts';
import type { InFlight } from './in-flight.ts';
import type { ScopeAction } from './scope.ts';

const LINE = 64;
/** Names of steps: client, batch, row and piece as digits. */
const BATCHES = 4096;
const ROWS = 256;
const PIECES = 4096;

/**
 * READs and WRITEs of a line or more happen line by line, shorter ones (the buckets of a small
 * table) word by word: finer pieces would only multiply what is the same to everybody.
 */
const pieceBytes = (bytes: number) => (bytes < LINE ? WORD : LINE);

/** Whether a step posts a batch, or ends an action. */
export function isPosting(name: number): boolean {
  return Math.floor(name / PIECES) % ROWS === 0;
}

/** Where the clients of a scope leave what they did. */
export interface ScopeLog extends CallLog {
  /** The clock passes the deadline of the records that expire. */
  expire(): Operation<void>;
}

/** One client of a scope: its program, and which steps it can do next. */
export class ScopeClient {
  readonly number: number;
  readonly pool: LocalPool;
  readonly index: Index;
  readonly caller: Caller;
  readonly #actions: readonly ScopeAction[];
  readonly #fabric: AdversaryFabric;
  /** Verbs that changed something and after which the client dies. */
  readonly #diesAfter: number;
  #at = 0;
  #running: Operation<void> | undefined;
  #execution: Execution | undefined;
  #batch: Batch | undefined;
  #batches = 0;
  #changes = 0;
  /** The steps of the batch on its way that have happened, by row. */
  #steps: number[][] = [];
  /** The step in which the batch on its way was posted. */
  #posted: number | undefined;
  /** What the words that this client read last held then. */
  readonly #seen = new Map<Address, bigint>();
  dead = false;
  /** In a scope with a client that waits for the calls of others. */
  readonly #inFlight: InFlight | undefined;
  readonly #log: ScopeLog;
  #walker: Walker | undefined;
  readonly #newCaller: (name: string) => Caller;
  /** For calls in flight at once. */
  readonly #callers: Caller[] = [];

  constructor(
    number: number,
    pool: LocalPool,
    index: Index,
    actions: readonly ScopeAction[],
    log: ScopeLog,
    diesAfter: number,
    inFlight?: InFlight,
    near?: NearReads,
  ) {
    this.number = number;
    this.pool = pool;
    this.index = index;
    this.#actions = actions;
    this.#fabric = pool.fabric as AdversaryFabric;
    this.#diesAfter = diesAfter;
    this.#inFlight = inFlight;
    this.#log = log;
    this.#newCaller = (name) => new Caller(`c${number}${name}`, index, log, near);
    this.caller = this.#newCaller('');
  }

  get retries(): number {
    return retriesOf(this.index);
  }

  get #mortal(): boolean {
    return this.#diesAfter !== Number.POSITIVE_INFINITY;
  }

  #name(row: number, piece: number): number {
    return ((this.number * BATCHES + this.#batches) * ROWS + row) * PIECES + piece;
  }

  /** Executes batches while no other client runs. */
  lead(batches: number): void {
    for (let i = 0; i < batches; i++) {
      this.#advance();
      if (this.#batch === undefined) throw new Error('the scope leads beyond its operation');
      this.#fabric.execute(this.#batch);
      this.#execution = undefined;
    }
  }

  /** The word that this client is about to poll, with a pause in between. */
  get polled(): Address | undefined {
    const batch = this.#batch;
    if (batch === undefined || batch.length < 2 || batch.kind[0] !== PAUSE) return undefined;
    if (batch.kind[1] !== READ || this.#execution?.pieces(0).length === 0) return undefined;
    return batch.address[1];
  }

  /** Whether a poll would see what this client has seen before, and so change nothing. */
  get waits(): boolean {
    const { polled } = this;
    return polled !== undefined && this.#fabric.memory.word(polled) === this.#seen.get(polled);
  }

  /** Adds the names of the steps that this client can do next. */
  addEnabled(names: number[]): void {
    if (this.dead) return;
    const execution = this.#execution;
    if (execution === undefined || execution.finished) {
      const more = this.#running !== undefined || this.#at < this.#actions.length;
      if (more) names.push(this.#name(0, 0));
      return;
    }
    const rows = execution.openRows();
    // A client that may die after a verb does them in order: the rest must not depend on chance.
    if (this.#mortal) rows.length = 1;
    for (const row of rows) {
      const pieces = execution.pieces(row);
      for (let i = 0; i < pieces.length; i += 2) {
        names.push(this.#name(row + 1, Math.floor(pieces[i] / WORD)));
      }
    }
  }

  /** Does a step; returns the steps of this client that come before it in every execution. */
  perform(name: number): number[] {
    const row = (Math.floor(name / PIECES) % ROWS) - 1;
    return row < 0 ? this.#goOn(name) : this.#performPiece(name, row, name % PIECES);
  }

  #goOn(name: number): number[] {
    const after = this.#steps.flat();
    if (after.length === 0 && this.#posted !== undefined) after.push(this.#posted);
    this.#advance();
    this.#posted = name;
    this.#steps = [];
    return after;
  }

  /** Begins the next action or continues the current one. */
  #advance(): void {
    this.#batches++;
    this.#execution = undefined;
    this.#batch = undefined;
    this.#running ??= this.#next();
    const { done, value } = this.#running.next();
    if (done) {
      this.#running = undefined;
      return;
    }
    this.#batch = value;
    this.#execution = new Execution(this.#fabric, value, pieceBytes);
  }

  #next(): Operation<void> {
    const action = this.#actions[this.#at++];
    if (action === 'walk') return this.#step();
    if (action === 'quiesce') return this.pool.reclamation.quiesce();
    if (action === 'collect') return this.#collect();
    if (action === 'expire') return this.#log.expire();
    if (action === 'sweep') return sweepExpired(this.pool, this.index);
    if (action === 'migrate') return migrate(this.index);
    if (action === 'compact') return compact(this.pool, this.index, this.#grace());
    if (action === 'release') return release(this.index);
    if ('withoutMemory' in action) {
      const call = this.#told(this.caller.perform(action.withoutMemory));
      return withoutMemory(this.pool, () => call);
    }
    if ('atOnce' in action) return this.#atOnce(action.atOnce);
    return this.#told(this.caller.perform(action));
  }

  /** A call that waits for another one posts nothing meanwhile. */
  *#atOnce(calls: readonly Call[]): Operation<void> {
    for (let i = 0; i < calls.length; i++) this.#callers[i] ??= this.#newCaller(String(i));
    const running = calls.map((call, i) => this.#callers[i].perform(call));
    // All have begun before the first one posts.
    const steps = running.map((each) => each.next());
    while (!steps.every(({ done }) => done)) {
      for (let i = 0; i < running.length; i++) {
        const { done, value } = steps[i];
        if (done) continue;
        if (value.length > 1 || value.kind[0] !== PAUSE) yield value;
        steps[i] = running[i].next();
      }
    }
  }

  #told(call: Operation<void>): Operation<void> {
    return this.#inFlight?.tell(this.number, call) ?? call;
  }

  /** One step of a walk; the walk's next step is the client's next action. */
  *#step(): Operation<void> {
    const name = `c${this.number}`;
    const form = { order: 'any', limit: undefined, first: undefined } as const;
    this.#walker ??= new Walker(name, this.index, this.#log, { once: true, form });
    yield* this.#told(this.#walker.step());
    if (this.#walker.done) this.#walker = undefined;
    else this.#at--;
  }

  #grace(): () => Operation<boolean> {
    if (this.#inFlight === undefined) throw new Error('nothing tells which calls are in flight');
    return this.#inFlight.outwait.bind(this.#inFlight, this.number);
  }

  *#collect(): Operation<void> {
    yield* this.pool.reclamation.quiesce();
    yield* this.pool.reclamation.collect();
  }

  #performPiece(name: number, row: number, word: number): number[] {
    const execution = this.#execution as Execution;
    const { kind, address } = this.#batch as Batch;
    const pieces = execution.pieces(row);
    let choice = 0;
    while (Math.floor(pieces[2 * choice] / WORD) !== word) choice++;
    execution.perform(row, choice);
    if (kind[row] === READ) {
      const at = address[row] + WORD * word;
      this.#seen.set(at, this.#fabric.memory.word(at));
    }
    this.#steps[row] ??= [];
    const after = this.#before(row);
    this.#steps[row].push(name);
    const changes = kind[row] === WRITE || kind[row] === CAS || kind[row] === FAA;
    if (changes && execution.pieces(row).length === 0) this.#changed();
    return after;
  }

  /** The verbs of the batch that are ordered before a row: for a WRITE only WRITEs. */
  #before(row: number): number[] {
    const { kind } = this.#batch as Batch;
    const after = this.#posted === undefined ? [] : [this.#posted];
    for (let earlier = 0; earlier < row; earlier++) {
      const overtaken = kind[row] === WRITE && kind[earlier] !== WRITE && !this.#mortal;
      if (!overtaken) after.push(...(this.#steps[earlier] ?? []));
    }
    return after;
  }

  #changed(): void {
    this.#changes++;
    if (this.#changes < this.#diesAfter) return;
    this.dead = true;
    for (const { current } of [this.caller, ...this.#callers]) {
      if (current) current.crashed = true;
    }
  }
}

/** As a sweep of a full pool does it (indexes/sweep.ts): there is no block for anything. */
export function compact(
  pool: LocalPool,
  index: Index,
  grace: () => Operation<boolean>,
): Operation<void> {
  return withoutMemory(pool, function* () {
    yield* index.compact?.(grace, true) ?? [];
  });
}

function* release(index: Index): Operation<void> {
  if (index.manifest.retiresLate) yield* index.compact?.() ?? [];
}

function* withoutMemory(pool: LocalPool, operation: () => Operation<void>): Operation<void> {
  const { allocator } = pool;
  const { allocate, refill } = allocator;
  allocator.allocate = noMemory;
  allocator.refill = noMemory;
  try {
    yield* operation();
  } finally {
    allocator.allocate = allocate;
    allocator.refill = refill;
  }
}

// biome-ignore lint/correctness/useYield: it raises before there is anything to do
function* noMemory(): Operation<never> {
  throw new StepwellError('SW_POOL_FULL', 'this client is to have no memory');
}

/** A turn of the product's sweep. No client of a scope has an epoch of its own to announce. */
function* sweepExpired(pool: LocalPool, index: Index): Operation<void> {
  const section = { pool, *enter() {}, exit() {} };
  yield* new ExpirySweep(section, index).turn();
}

/** Every part of the index to the memory node where it is to be. */
function* migrate(index: Index): Operation<void> {
  if (!isPlaced(index)) throw new Error('an index that is not placed cannot migrate');
  for (const migration of index.placement.rebalancing()) {
    while (!migration.done) yield* migration.next();
  }
}
