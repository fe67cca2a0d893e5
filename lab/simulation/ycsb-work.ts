import { ALWAYS, type Index, type OrderedIndex } from '../../src/indexes/contract.ts';
import type { Request } from '../../src/indexes/substrates/request.ts';
import type { Prng } from '../../src/random/prng.ts';
import type { Operation } from '../../src/verbs/index.ts';
import type { Distribution } from '../workloads/index.ts';
import type { SimulatedCluster } from './cluster.ts';
import type { PoolClient } from './pool-client.ts';

type Step = 'read' | 'update' | 'insert' | 'scan' | 'readModifyWrite';

export interface YcsbWorkload {
  name: string;
  /** Two steps, and how often out of 100 it is the second. */
  steps: readonly [Step, Step];
  other: number;
  latest?: boolean;
}

/** YCSB A to F. */
export const YCSB: readonly YcsbWorkload[] = [
  { name: 'A', steps: ['read', 'update'], other: 50 },
  { name: 'B', steps: ['read', 'update'], other: 5 },
  { name: 'C', steps: ['read', 'read'], other: 0 },
  { name: 'D', steps: ['read', 'insert'], other: 5, latest: true },
  { name: 'E', steps: ['scan', 'insert'], other: 5 },
  { name: 'F', steps: ['read', 'readModifyWrite'], other: 50 },
];

/** A scan reads 1 to 100 records. */
const SCAN_RECORDS_MAX = 100;

interface YcsbSetting<I extends Index> {
  cluster: SimulatedCluster<I>;
  workload: YcsbWorkload;
  prng: Prng;
  chosen: Distribution;
  /** Existing records; inserted ones get the numbers from here on. */
  records: number;
  /** Leaves that a scan reads per doorbell, if not the index's default. */
  scanWidth?: number;
}

/** Supplies the clients with operations of a YCSB workload. */
export class YcsbWork<I extends Index> {
  readonly #setting: YcsbSetting<I>;
  #inserted: number;

  constructor(setting: YcsbSetting<I>) {
    this.#setting = setting;
    this.#inserted = setting.records;
  }

  next(client: PoolClient<I>, request: Request): Operation<unknown> {
    const { workload, prng, chosen, cluster, scanWidth } = this.#setting;
    const { index, records } = client;
    const step = workload.steps[prng.below(100) < workload.other ? 1 : 0];
    const record = step === 'insert' ? this.#inserted++ : chosen.next();
    const key = cluster.keys.bytes(record);
    if (step === 'scan') {
      const ordered = index as unknown as OrderedIndex;
      return scanOf(ordered, key, 1 + prng.below(SCAN_RECORDS_MAX), scanWidth);
    }
    if (step === 'read') {
      request.setKey(key, index.records.seed);
      return index.search(request);
    }
    const value = cluster.values.buffer(record, 1);
    if (step === 'readModifyWrite') return readModifyWrite(client, request, key, value);
    records.encode(request, key, value, 0);
    return index.write(request, ALWAYS);
  }
}

function* readModifyWrite(
  { index, records }: PoolClient<Index>,
  request: Request,
  key: Uint8Array,
  value: Uint8Array,
): Operation<unknown> {
  const image = value.slice();
  request.setKey(key, index.records.seed);
  yield* index.search(request);
  records.encode(request, key, image, 0);
  return yield* index.write(request, ALWAYS);
}

/** Scans `limit` records from the key on. */
export function* scanOf(
  index: OrderedIndex,
  key: Uint8Array,
  limit: number,
  width?: number,
): Operation<void> {
  const scan = index.scan({ lower: { key, inclusive: true }, limit, width });
  while (!scan.done) yield* scan.next(() => {});
}
