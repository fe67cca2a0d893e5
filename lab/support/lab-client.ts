import type { Index, IndexKind } from '../../src/indexes/contract.ts';
import {
  ALWAYS,
  type Condition,
  IF_ABSENT,
  IF_PRESENT,
  REFUSED,
} from '../../src/indexes/contract.ts';
import { createStore, openIndex } from '../../src/indexes/kinds.ts';
import type { Request } from '../../src/indexes/substrates/request.ts';
import { LocalPool } from '../../src/pool/local-pool.ts';
import { createInMemory } from '../../src/store/places/memory-pools.ts';
import type { Operation } from '../../src/verbs/index.ts';
import { KeyGenerator, ValueGenerator } from '../workloads/index.ts';
import { growthsOf } from './counters.ts';

/** A bound: 16 + 32 bytes take one line, and no index takes as much again and half of it. */
const BYTES_A_RECORD = 640;
const BYTES_BASE = 2 ** 28;
const VERSION = 1;
const SEED = 1;

export const CALLS = ['put', 'insert', 'update', 'search', 'delete'] as const;
export type Call = (typeof CALLS)[number];

const CONDITIONS: Partial<Record<Call, Condition>> = {
  put: ALWAYS,
  insert: IF_ABSENT,
  update: IF_PRESENT,
};

/**
 * One client of an index on memory of its own, without a store: so the counters are the index's,
 * and housekeeping between two operations can be kept apart. Records are those of the generators.
 */
export class LabClient<I extends Index = Index> {
  readonly pool: LocalPool;
  readonly index: I;
  readonly #request: Request;
  readonly #keys = new KeyGenerator();
  readonly #values = new ValueGenerator();

  /** `records`: how many there may be at the most. */
  constructor(kind: IndexKind, wishes: Readonly<Record<string, number>>, records: number) {
    const size = BYTES_BASE + BYTES_A_RECORD * records;
    const { fabric, parameters, source } = createInMemory({ size, maxClients: 2 });
    this.pool = new LocalPool(fabric, parameters, source);
    this.pool.join('lab');
    const shape = kind.parameters({ ...wishes }, size, SEED);
    const entry = this.pool.run(createStore(this.pool, 'lab', kind, shape));
    this.index = this.pool.run(openIndex(this.pool, entry)) as I;
    this.#request = this.index.newRequest();
  }

  /** Resizes of every kind that this client has done. */
  get resizes(): number {
    return growthsOf(this.index);
  }

  /** The counters of the fabric: rows as in verbs/traffic.ts. */
  get traffic(): Float64Array {
    return this.pool.fabric.traffic.rows;
  }

  /**
   * Runs one operation on a record, which must find it as the call needs it. `around` hears of it
   * before and after, with no housekeeping in between.
   */
  perform(call: Call, record: number, around?: { before(): void; after(): void }): void {
    const { pool, index } = this;
    const request = this.#request;
    pool.enter();
    try {
      this.#prepare(call, record);
      around?.before();
      const done = pool.run(operationOf(call, index, request));
      around?.after();
      if (done === false || done === REFUSED) {
        throw new Error(`${call} did not find record ${record} as it should be`);
      }
    } finally {
      pool.exit();
    }
  }

  #prepare(call: Call, record: number): void {
    const { index } = this;
    const key = this.#keys.bytes(record);
    if (CONDITIONS[call] === undefined) {
      this.#request.setKey(key, index.records.seed);
      return;
    }
    const value = this.#values.buffer(record, call === 'insert' ? 0 : 1);
    index.records.encode(this.#request, key, value, VERSION);
  }

  close(): void {
    this.pool.close();
  }
}

function operationOf(call: Call, index: Index, request: Request): Operation<unknown> {
  const condition = CONDITIONS[call];
  if (condition !== undefined) return index.write(request, condition);
  return call === 'search' ? index.search(request) : index.remove(request);
}
