import { Histogram } from '../simulated/histogram.ts';
import { Permutation } from '../workloads/index.ts';
import type { SimulatedCluster } from './cluster.ts';
import { type Kind, mustHaveWorked, operationOn } from './operations.ts';
import type { PoolClient } from './pool-client.ts';

export interface Phase {
  kind: Kind;
  latencies: Histogram;
  /** Operations per second of virtual time. */
  rate: number;
}

interface PhaseOptions {
  kind: Kind;
  /** Records [from, from + count), each once, in random order, by whichever client is free. */
  from: number;
  count: number;
  seed: number;
}

/** Clients run one kind of operation on records, until all are done. */
export function runPhase(
  cluster: SimulatedCluster,
  clients: readonly PoolClient[],
  { kind, from, count, seed }: PhaseOptions,
): Phase {
  const order = new Permutation(count, seed);
  const { network } = cluster;
  let next = 0;
  const latencies = new Histogram();
  for (const client of clients) {
    client.begin({
      next: (request) =>
        next < count
          ? operationOn(kind, cluster, client, request, from + order.at(next++))
          : undefined,
      ended: (result, latencyNs) => {
        mustHaveWorked(kind, result);
        latencies.record(latencyNs);
      },
    });
  }
  const start = network.now;
  network.beginMeasurement();
  network.run();
  const rate = (count * 1e9) / (network.now - start);
  return { kind, latencies, rate };
}
