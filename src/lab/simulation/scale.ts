import { Histogram } from '../../fabrics/simulated/histogram.ts';
import type { MeasuredUse } from '../../fabrics/simulated/measured-use.ts';
import { Timeline } from '../../fabrics/simulated/timeline.ts';
import { Prng } from '../../workloads/index.ts';
import type { Experiment, Row, Settings } from './experiment.ts';
import { HALF_FULL_RECORDS, halfFullCluster } from './half-full.ts';
import { type Kind, mustHaveWorked, operationOn } from './operations.ts';

const CLIENTS = [1, 4, 16, 64, 256, 1024] as const;
/** The eight machines of SepHash's testbed, as compute nodes. */
const COMPUTE_NODES = 8;
const POOL_BYTES = 2 ** 29;
/**
 * What an operation takes of a full memory node, and a multiple of it for each coroutine, so that
 * every one of them gets its turn several times before the measurement begins, and during it.
 */
const NS_PER_OPERATION = 500;
const NS_PER_COROUTINE = 4000;
const INTERVALS = 10;

interface Load {
  kind: Kind;
  coroutines: number;
}

const LOADS: readonly Load[] = [
  { kind: 'search', coroutines: 1 },
  { kind: 'search', coroutines: 8 },
  { kind: 'update', coroutines: 1 },
];

/** More and more clients of one memory node, until something of it is always busy. */
export const scale: Experiment = {
  name: 'scale',
  run(settings) {
    const rows: Row[] = [];
    for (const load of LOADS) {
      for (const clients of CLIENTS) rows.push(rowOf(settings, load, clients));
    }
    const notes = [
      `One memory node, ${COMPUTE_NODES} compute nodes, load factor 0.5, uniform keys.`,
      'SHARD’s peak of 15.5 M searches/s of 2 READs over 3 NICs is 10.3 M READ/s a NIC; a RACE',
      'search has 3 READs.',
    ];
    return { title: 'Throughput by clients, and what limits it', rows, notes };
  },
};

function rowOf(settings: Settings, load: Load, clients: number): Row {
  const { rate, latencies, use, timeline } = measure(settings, load, clients);
  const [node] = use.memoryNodes;
  const figures = {
    messages: node.messages,
    linkIn: node.inbound,
    linkOut: node.outbound,
    atomics: node.atomics,
    clientCpu: use.clientCpu.mean,
    p50: latencies.quantile(0.5) / 1000,
    p99: latencies.quantile(0.99) / 1000,
    overTime: timeline.rates().slice(0, INTERVALS),
  };
  return {
    what: `${load.kind}, ${clients} clients x ${load.coroutines}`,
    ours: rate / 1e6,
    unit: 'M/s',
    detail: inWords(figures),
    figures,
  };
}

interface Figures {
  messages: number;
  linkOut: number;
  atomics: number;
  clientCpu: number;
  p50: number;
  p99: number;
  overTime: number[];
}

function inWords({ messages, linkOut, atomics, clientCpu, p50, p99, overTime }: Figures): string {
  const share = (value: number) => `${(100 * value).toFixed(0)} %`;
  const millions = (value: number) => (value / 1e6).toFixed(2);
  return [
    `node: messages ${share(messages)}, link out ${share(linkOut)}, atomics ${share(atomics)}`,
    `client CPU ${share(clientCpu)}`,
    `p50 ${p50.toFixed(1)}, p99 ${p99.toFixed(1)} us`,
    `over time ${millions(Math.min(...overTime))}-${millions(Math.max(...overTime))}`,
  ].join('; ');
}

interface Measured {
  rate: number;
  latencies: Histogram;
  use: MeasuredUse;
  timeline: Timeline;
}

function measure(settings: Settings, { kind, coroutines }: Load, count: number): Measured {
  const cluster = halfFullCluster(settings, {
    clients: count,
    computeNodes: COMPUTE_NODES,
    poolBytes: POOL_BYTES,
  });
  const { network } = cluster;
  const prng = Prng.fromSeed(settings.seed);
  const latencies = new Histogram();
  const ns = settings.operations * NS_PER_OPERATION + count * coroutines * NS_PER_COROUTINE;
  const timeline = new Timeline(ns / INTERVALS, ns);
  for (let i = 0; i < count; i++) {
    const client = cluster.addClient(i % COMPUTE_NODES, coroutines);
    client.begin({
      next: (request) => operationOn(kind, cluster, client, request, prng.below(HALF_FULL_RECORDS)),
      ended(result, latencyNs) {
        mustHaveWorked(kind, result);
        if (network.now < ns) return;
        latencies.record(latencyNs);
        timeline.record(network.now);
      },
    });
  }
  network.run(ns);
  network.beginMeasurement();
  network.run(2 * ns);
  const use = network.measure();
  return { rate: (latencies.count * 1e9) / ns, latencies, use, timeline };
}
