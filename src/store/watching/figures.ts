import type { Percentiles } from '../../pool/clients/meter.ts';
import type { BoundStats } from '../api.ts';
import type { MemoryReport } from '../reports.ts';

/**
 * The figures that `stepwell top` and the page show, as plain data. A rate covers the last second
 * or two. An unknown figure is null.
 */
export interface PoolFigures {
  /** Milliseconds since 1970. */
  at: number;
  url: string;
  createdAt: number;
  /** Maximum size of the pool, and size of the chunks in use, in bytes. */
  sizeMax: number;
  bytesUsed: number;
  memory: MemoryReport;
  clientsMax: number;
  /** The sums over all clients. */
  sum: Rates;
  clients: ClientRates[];
  stores: StoreFigures[];
}

export interface Rates {
  /** Per second: keys looked up, writes and removals, and records that scans have visited. */
  reads: number;
  writes: number;
  scanned: number;
  /** Share of the keys looked up that were found. */
  hitRate: number | null;
  /** Microseconds, usually of the last 10 to 20 seconds. For several clients, the slowest's. */
  readLatency: Percentiles | null;
  writeLatency: Percentiles | null;
}

export interface ClientRates extends Rates {
  id: number;
  name: string;
  pid: number;
  network: boolean;
  alive: boolean;
  attachedAt: number;
  /** Bytes, as in `MemoryReport`. */
  claimed: number;
  waiting: number;
  /** Whether it has held back retired memory since the last reading, stuck in an operation. */
  lags: boolean;
  /** Age of its figures in milliseconds; null if it has published none. */
  toldAgo: number | null;
}

export interface StoreFigures {
  name: string;
  index: string;
  ordered: boolean;
  state: 'ready' | 'creating' | 'dropped';
  bytes: number;
  /** Load of the parts in the last reading; null before the first. */
  load: StoreLoad | null;
  bound: (BoundStats & { evictionsPerSecond: number; hitRate: number | null }) | null;
}

export interface StoreLoad {
  records: number;
  slots: number;
  /** Whether all parts were read, so that nothing is estimated. */
  isExact: boolean;
  /** How long ago, in milliseconds. */
  ago: number;
}
