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
import { createInMemory } from '../../src/store/places/pool-place.ts';
import type { Operation } from '../../src/verbs/index.ts';
import { KeyGenerator, ValueGenerator } from '../workloads/index.ts';
import { growthsOf } from './counters.ts';

/** Generous: a record of 16 + 32 bytes takes 64, and the index and its growth need the rest. */
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
 * The only client of an index in private memory, without a store. The fabric's counters therefore
 * count the index alone, and `perform` can exclude housekeeping between two operations. Keys and
 * values come from the generators.
 */
export class LabClient<I extends Index = Index> {
  readonly pool: LocalPool;
  readonly index: I;
  readonly #request: Request;
  readonly #keys = new KeyGenerator();
  readonly #values = new ValueGenerator();

  /** `records`: the most records that the index will ever hold. */
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

  /** How many resizes, of any kind, this client has done. */
  get resizes(): number {
    return growthsOf(this.index);
  }

  /** The counters of the fabric: rows as in verbs/traffic.ts. */
  get traffic(): Float64Array {
    return this.pool.fabric.traffic.rows;
  }

  /**
   * Runs one operation on a record. The record must be in the state that the call needs: absent for
   * an insert, present for an update. `around` is called immediately before and after, so no
   * housekeeping falls in between.
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
