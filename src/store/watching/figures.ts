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
  /** The most that the pool may take, and what chunks are in use, in bytes. */
  sizeMax: number;
  bytesUsed: number;
  memory: MemoryReport;
  clientsMax: number;
  /** All clients together. */
  sum: Rates;
  clients: ClientRates[];
  stores: StoreFigures[];
}

export interface Rates {
  /** Keys looked up, writes and removals, and records that scans have met, each a second. */
  reads: number;
  writes: number;
  scanned: number;
  /** Share of the keys looked up that were there. */
  hitRate: number | null;
  /** Microseconds, of the last 10 to 20 seconds. For several clients, the slowest one's. */
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
  /** Whether memory has waited for it since the last look: it is stuck in an operation. */
  lags: boolean;
  /** How old its figures are, in milliseconds; null when it has told none. */
  toldAgo: number | null;
}

export interface StoreFigures {
  name: string;
  index: string;
  ordered: boolean;
  state: 'ready' | 'creating' | 'dropped';
  bytes: number;
  /** Load of the parts that were read last; null before the first reading. */
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
