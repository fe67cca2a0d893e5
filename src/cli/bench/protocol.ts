import type { PoolHandle } from '../../store/api.ts';

export type BenchTask =
  /** Insert this client's share of the records, once. */
  | { operation: 'insert' }
  /** Work on random records for a while. */
  | { operation: 'get' | 'set'; milliseconds: number };

export interface Measured {
  operations: number;
  milliseconds: number;
}

export interface BenchClientSetup {
  handle: PoolHandle;
  store: string;
  /** Which of `clients` this is, from 0. */
  client: number;
  clients: number;
  records: number;
  valueSize: number;
}

/** One client of a benchmark, in a thread of its own. */
export interface BenchClient {
  run(task: BenchTask): Promise<Measured>;
  stop(): Promise<void>;
}
