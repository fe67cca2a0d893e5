import assert from 'node:assert/strict';
import type { Index, IndexKind, IndexScan } from '../../../indexes/contract.ts';
import { createStore, openIndex } from '../../../indexes/kinds.ts';
import { RACE, type RaceIndex } from '../../../indexes/race/race.ts';
import { SEPHASH, type SepHashIndex } from '../../../indexes/sephash/sephash.ts';
import { SHARD, type ShardIndex } from '../../../indexes/shard/shard.ts';
import type { Request } from '../../../indexes/substrates/request.ts';
import { LocalPool } from '../../../pool/local-pool.ts';
import type { Batch, Fabric, Operation } from '../../../verbs/index.ts';
import type { IndexName, OpenOptions, PoolHandle } from '../../api.ts';
import { attachInMemory, createInMemory, poolOf } from '../../places/pool-place.ts';
import { endAfter, type Scope, SMALL } from './pools.ts';

/** A client whose operations a test drives step by step. */
export interface ByHand<I extends Index = RaceIndex> {
  pool: LocalPool;
  index: I;
  handle: PoolHandle;
}

/** Parameters of the indexes, as their kinds take them. */
type Wishes = { [K in IndexName]?: Readonly<Record<string, number>> };

export interface ByHandOptions extends OpenOptions, Wishes {
  /** Another client of this pool. */
  handle?: PoolHandle;
  /** Memory nodes of the pool, of one region each. */
  nodes?: number;
}

/** A new `memory:` pool with one RACE table, or another client of one. */
export function clientByHand(scope: Scope, options: ByHandOptions = {}): ByHand {
  return clientOf<RaceIndex>(RACE, scope, options.race ?? {}, options);
}

/** The same with a SepHash index. */
export function sepHashByHand(scope: Scope, options: ByHandOptions = {}): ByHand<SepHashIndex> {
  return clientOf<SepHashIndex>(SEPHASH, scope, options.sephash ?? {}, options);
}

/** The same with a SHARD table. */
export function shardByHand(scope: Scope, options: ByHandOptions = {}): ByHand<ShardIndex> {
  return clientOf<ShardIndex>(SHARD, scope, options.shard ?? {}, options);
}

/** A client of a pool with an index of this kind. */
export function clientOf<I extends Index>(
  kind: IndexKind,
  scope: Scope,
  parameters: object,
  { handle, nodes = 1, ...wishes }: ByHandOptions,
): ByHand<I> {
  const buffers = handle === undefined ? undefined : poolOf(handle);
  const memory = typeof buffers === 'object' ? buffers : undefined;
  const created = memory ? undefined : createInMemory({ ...sizesFor(nodes), ...wishes, nodes });
  const { fabric, parameters: sizes, source } = created ?? attachInMemory(memory ?? []);
  const pool = new LocalPool(fabric, sizes, source);
  pool.join('by hand');
  endAfter(scope, pool, (open) => open.close());
  // A fixed seed: which keys share buckets and fingerprints is the same in every run.
  const shape = kind.parameters({ ...parameters }, SMALL.size, 12_345, nodes);
  const entry = pool.run(createStore(pool, 'default', kind, shape));
  const index = pool.run(openIndex(pool, entry)) as I;
  // A client claims blocks only in an epoch that it has announced.
  pool.run(pool.reclamation.quiesce());
  return { pool, index, handle: created?.handle ?? handle ?? '' };
}

function sizesFor(nodes: number): OpenOptions {
  const { size } = SMALL;
  if (nodes === 1) return SMALL;
  return { ...SMALL, size: nodes * size, regionSize: size };
}

/** Claims blocks of these sizes, so that no round trip that a test counts is one of a claim. */
export function claimAhead({ pool, index }: ByHand<Index>, ...sizes: number[]): void {
  for (const units of sizes) {
    const sizeClass = pool.allocator.sizeClass(index.records.catalog, units);
    sizeClass.batch = sizeClass.claimsMax(false);
    pool.run(pool.allocator.refill(sizeClass));
  }
}

/** A request with the key, and with the value for a write. */
export function requestFor<I extends Index>(
  { index }: Pick<ByHand<I>, 'index'>,
  key: string | Uint8Array,
  value?: string,
  version = 1,
): ReturnType<I['newRequest']> {
  const request = index.newRequest() as ReturnType<I['newRequest']>;
  if (value === undefined) request.setKey(key, index.records.seed);
  else index.records.encode(request, key, value, version);
  return request;
}

/** Text of the value that the request found. */
export function foundText({ found }: Request): string {
  const { memory, valueAt, valueBytes } = found;
  return Buffer.from(memory.u8.subarray(valueAt, valueAt + valueBytes)).toString();
}

/** The problems that a check of the index finds, and the number of records. */
export function checked({ pool, index }: ByHand<Index>): { problems: string[]; records: number } {
  const problems: string[] = [];
  const reached = new Set<number>();
  const records = pool.run(
    index.check({
      problem: (text) => problems.push(text),
      reachable: (address) => {
        if (reached.has(address)) problems.push(`block ${address} is reached twice`);
        reached.add(address);
      },
      progress: () => {},
    }),
  );
  return { problems, records };
}

/** The records of a scan whose visitor throws at each step, then takes the step again. */
export function metImpatiently(pool: LocalPool, scan: IndexScan): string[] {
  const met: string[] = [];
  const enough = new Error('enough');
  while (!scan.done) {
    const impatient = scan.next(() => {
      throw enough;
    });
    assert.throws(() => pool.run(impatient), enough);
    pool.run(scan.next((request) => met.push(foundText(request))));
  }
  return met;
}

const KIND_NAMES = ['READ', 'WRITE', 'CAS', 'FAA', 'PAUSE', 'CALL', 'AWAIT'];

/** Runs an operation to its end and returns the kinds of verbs of each of its round trips. */
export function traced<T>(fabric: Fabric, operation: Operation<T>): { trips: string[]; value: T } {
  const trips: string[] = [];
  for (;;) {
    const step = operation.next();
    if (step.done) return { trips, value: step.value };
    trips.push(kindsOf(step.value));
    fabric.execute(step.value);
  }
}

export function kindsOf({ kind, length }: Batch): string {
  return Array.from(kind.subarray(0, length), (each) => KIND_NAMES[each]).join(' ');
}

/** Executes so many round trips of an operation and prepares the next one, without executing it. */
export function advance(fabric: Fabric, operation: Operation<unknown>, steps: number): Batch {
  for (let i = 0; ; i++) {
    const step = operation.next();
    if (step.done) throw new Error('the operation ended early');
    if (i === steps) return step.value;
    fabric.execute(step.value);
  }
}

/** Executes so many verbs of an operation, and no more; how many there were. */
export function stopAfter(
  { pool }: { pool: { fabric: Fabric } },
  operation: Operation<unknown>,
  verbs: number,
): number {
  for (let left = verbs; left > 0; ) {
    const step = operation.next();
    if (step.done) return verbs - left;
    const batch = step.value;
    const whole = batch.length;
    batch.length = Math.min(left, whole);
    left -= batch.length;
    pool.fabric.execute(batch);
    batch.length = whole;
  }
  return verbs;
}

/** An operation that a test drives batch by batch. */
export class Stepped<T> {
  readonly #fabric: Fabric;
  readonly #operation: Operation<T>;
  #pending: Batch | undefined;
  result: T | undefined;
  steps = 0;

  constructor(fabric: Fabric, operation: Operation<T>) {
    this.#fabric = fabric;
    this.#operation = operation;
    this.#advance();
  }

  get done(): boolean {
    return this.#pending === undefined;
  }

  /** Executes the batch that waits and prepares the next. */
  step(): void {
    this.#fabric.execute(this.#pending as Batch);
    this.steps++;
    this.#advance();
  }

  /** Executes only the first verbs of the batch that waits; the operation never goes on. */
  dieAfter(verbs: number): void {
    const batch = this.#pending as Batch;
    batch.length = Math.min(verbs, batch.length);
    this.#fabric.execute(batch);
  }

  /** Executes only the first verbs of the batch that waits; the others wait on. */
  stepPart(verbs: number): void {
    const batch = this.#pending as Batch;
    const { length, kind, address, bytes, offset, scratch } = batch;
    batch.length = verbs;
    this.#fabric.execute(batch);
    for (const rows of [kind, address, bytes, offset]) rows.copyWithin(0, verbs, length);
    scratch.copyWithin(0, verbs, length);
    batch.length = length - verbs;
  }

  /** Verbs of the batch that waits. */
  get verbs(): number {
    return this.#pending?.length ?? 0;
  }

  /** Kinds of the verbs of the batch that waits. */
  get kinds(): string {
    return this.#pending === undefined ? '' : kindsOf(this.#pending);
  }

  #advance(): void {
    const { done, value } = this.#operation.next();
    if (done) this.result = value;
    this.#pending = done ? undefined : value;
  }

  finish(): T {
    while (!this.done) this.step();
    return this.result as T;
  }
}
