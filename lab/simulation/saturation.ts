import { Histogram } from '../simulated/histogram.ts';
import type { MeasuredUse } from '../simulated/measured-use.ts';
import type { SimulatedNetwork } from '../simulated/network.ts';
import { Timeline } from '../simulated/timeline.ts';
import { Prng, ScrambledZipf } from '../workloads/index.ts';
import type { SimulatedCluster } from './cluster.ts';
import type { Settings } from './experiment.ts';
import { type Kind, mustHaveWorked, operationOn } from './operations.ts';

/** Virtual time per operation on a saturated memory node, and per coroutine. */
const NS_PER_OPERATION = 500;
const NS_PER_COROUTINE = 4000;
const INTERVALS = 10;
/**
 * New clients claim memory and fill their caches. So a run warms up for periods as long as the
 * measured one, until `inARow` of them differ from their predecessor by at most `share`.
 */
const AT_REST = { share: 0.02, inARow: 2 };
const WARM_UPS_MAX = 12;

export interface Load {
  kind: Kind;
  clients: number;
  coroutines: number;
  /** Records [0, records) exist. */
  records: number;
  /** Chooses records by Zipf's law with this constant; default: uniformly. */
  theta?: number;
  /** Share of updates; the other operations are of `kind`. Default: 0. */
  updates?: number;
}

export interface Saturation {
  /** Operations per second of virtual time: overall, and in each tenth of the time. */
  rate: number;
  overTime: number[];
  latencies: Histogram;
  use: MeasuredUse;
}

/** Starts clients on all compute nodes, which work without end, and measures for a while. */
export function saturate(
  cluster: SimulatedCluster,
  { kind, clients, coroutines, records, theta, updates = 0 }: Load,
  { seed, operations }: Settings,
): Saturation {
  const { network } = cluster;
  const prng = Prng.fromSeed(seed);
  const zipf = theta === undefined ? undefined : new ScrambledZipf(records, prng.fork(1), theta);
  const nextRecord = () => zipf?.next() ?? prng.below(records);
  const nextKind = () => (updates > 0 && prng.nextDouble() < updates ? 'update' : kind);
  return measureAtRest(network, periodNs(operations, clients * coroutines), (ended) => {
    for (let i = 0; i < clients; i++) {
      const client = cluster.addClient(i % network.computeNics.length, coroutines);
      client.begin({
        next: (request) => operationOn(nextKind(), cluster, client, request, nextRecord()),
        ended(result, latencyNs) {
          mustHaveWorked(kind, result);
          ended(latencyNs);
        },
      });
    }
  });
}

/** How long to measure: each coroutine gets several turns. */
export function periodNs(operations: number, coroutines: number): number {
  return operations * NS_PER_OPERATION + coroutines * NS_PER_COROUTINE;
}

/**
 * Measures one period once the clients are at rest. `begin` starts them; they report each
 * operation that has ended.
 */
export function measureAtRest(
  network: SimulatedNetwork,
  ns: number,
  begin: (ended: (latencyNs: number) => void) => void,
): Saturation {
  const latencies = new Histogram();
  let count = 0;
  let timeline: Timeline | undefined;
  begin((latencyNs) => {
    count++;
    if (timeline === undefined) return;
    latencies.record(latencyNs);
    timeline.record(network.now);
  });
  for (let i = 0, last = 0, alike = 0; i < WARM_UPS_MAX && alike < AT_REST.inARow; i++) {
    const before = count;
    network.run(network.now + ns);
    const gain = count - before - last;
    last += gain;
    alike = Math.abs(gain) <= AT_REST.share * last ? alike + 1 : 0;
  }
  timeline = new Timeline(ns / INTERVALS, network.now);
  network.beginMeasurement();
  network.run(network.now + ns);
  const overTime = timeline.rates().slice(0, INTERVALS);
  return { rate: (latencies.count * 1e9) / ns, overTime, latencies, use: network.measure() };
}
