import type { Index } from '../../src/indexes/contract.ts';
import type { TrafficCounters } from '../../src/verbs/index.ts';
import { Histogram } from '../simulated/histogram.ts';
import { Timeline } from '../simulated/timeline.ts';
import { SimulatedCluster } from './cluster.ts';
import type { Settings } from './experiment.ts';
import type { IndexKind } from './index-kind.ts';
import { mustHaveWorked, operationOn } from './operations.ts';
import type { PoolClient } from './pool-client.ts';

interface GrowthOptions<I extends Index = Index> {
  kind: IndexKind<I>;
  clients: number;
  /** New keys, inserted by all clients together. */
  inserts: number;
  computeNodes?: number;
  poolBytes?: number;
  intervalNs?: number;
  /** Called after every insertion. */
  observe?(client: PoolClient<I>): void;
}

export interface Growth<I extends Index = Index> {
  /** Insertions per second of virtual time: overall and by interval. */
  rate: number;
  overTime: number[];
  latencies: Histogram;
  clients: readonly PoolClient<I>[];
  /** Sums of the rows of `TrafficCounters` over all clients, housekeeping included. */
  traffic: TrafficCounters['rows'];
}

const POOL_BYTES = 2 ** 28;
const INTERVAL_NS = 1_000_000;

/** Clients insert keys into an empty index, which grows as needed. Nothing else runs. */
export function grow<I extends Index>(settings: Settings, options: GrowthOptions<I>): Growth<I> {
  const { kind, inserts, computeNodes = 3, intervalNs = INTERVAL_NS } = options;
  const { model, seed } = settings;
  const poolBytes = options.poolBytes ?? POOL_BYTES;
  const cluster = new SimulatedCluster<I>({
    model,
    seed,
    kind,
    computeNodes,
    poolBytes,
    clients: options.clients,
  });
  const { network } = cluster;
  const latencies = new Histogram();
  const timeline = new Timeline(intervalNs);
  let next = 0;
  const clients = Array.from({ length: options.clients }, (_, i) =>
    cluster.addClient(i % computeNodes),
  );
  for (const client of clients) {
    client.begin({
      next: (request) =>
        next < inserts ? operationOn('insert', cluster, client, request, next++) : undefined,
      ended(result, latencyNs) {
        mustHaveWorked('insert', result);
        latencies.record(latencyNs);
        timeline.record(network.now);
        options.observe?.(client);
      },
    });
  }
  network.run();
  const rate = (inserts * 1e9) / network.now;
  const traffic = sumOf(clients.map(({ pool }) => pool.fabric.traffic.rows));
  return { rate, overTime: timeline.rates(), latencies, clients, traffic };
}

function sumOf(rows: readonly Float64Array[]): TrafficCounters['rows'] {
  const sum = new Float64Array(rows[0].length);
  return sum.map((_, i) => rows.reduce((total, row) => total + row[i], 0));
}

interface Dips {
  /** Median of the intervals, and the worst interval as a share of it. */
  median: number;
  worst: number;
  /** Total milliseconds of intervals with less than half of the median. */
  below: number;
}

/** How steady a rate is. The first and the last interval are incomplete, so they do not count. */
export function dipsOf(overTime: readonly number[], intervalNs = INTERVAL_NS): Dips {
  const whole = overTime.slice(1, -1);
  const sorted = whole.toSorted((a, b) => a - b);
  const median = sorted[sorted.length >> 1];
  const below = whole.filter((rate) => rate < median / 2).length;
  return { median, worst: sorted[0] / median, below: (below * intervalNs) / 1e6 };
}
