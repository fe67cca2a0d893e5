import { percent } from '../support/text.ts';
import type { Experiment, Row, Settings } from './experiment.ts';
import { HALF_FULL_RECORDS, halfFullCluster } from './half-full.ts';
import { type Load, saturate } from './saturation.ts';

const CLIENTS = [1, 4, 16, 64, 256, 1024] as const;
/** The eight machines of SepHash's testbed, as compute nodes. */
const COMPUTE_NODES = 8;
const POOL_BYTES = 2 ** 29;
const LOADS = [
  { kind: 'search', coroutines: 1 },
  { kind: 'search', coroutines: 8 },
  { kind: 'update', coroutines: 1 },
] as const;

/** More and more clients of one memory node, until one of its resources is saturated. */
export const scale: Experiment = {
  name: 'scale',
  run(settings) {
    const rows: Row[] = [];
    for (const load of LOADS) {
      for (const clients of CLIENTS) {
        rows.push(rowOf(settings, { ...load, clients, records: HALF_FULL_RECORDS }));
      }
    }
    const notes = [
      `One memory node, ${COMPUTE_NODES} compute nodes, load factor 0.5, uniform keys.`,
      'SHARD’s peak of 15.5 M searches/s of 2 READs over 3 NICs is 10.3 M READ/s a NIC; a RACE',
      'search has 3 READs.',
    ];
    return { title: 'Throughput by clients, and what limits it', rows, notes };
  },
};

function rowOf(settings: Settings, load: Load): Row {
  const { kind, clients, coroutines } = load;
  const options = { clients, computeNodes: COMPUTE_NODES, poolBytes: POOL_BYTES };
  const { rate, latencies, use, overTime } = saturate(
    halfFullCluster(settings, options),
    load,
    settings,
  );
  const [node] = use.memoryNodes;
  const figures = {
    messages: node.messages,
    linkIn: node.inbound,
    linkOut: node.outbound,
    atomics: node.atomics,
    clientCpu: use.clientCpu.mean,
    p50: latencies.quantile(0.5) / 1000,
    p99: latencies.quantile(0.99) / 1000,
    overTime,
  };
  return {
    what: `${kind}, ${clients} clients x ${coroutines}`,
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
  const millions = (value: number) => (value / 1e6).toFixed(2);
  return [
    `node: messages ${percent(messages, 0)}, link out ${percent(linkOut, 0)}`,
    `atomics ${percent(atomics, 0)}; client CPU ${percent(clientCpu, 0)}`,
    `p50 ${p50.toFixed(1)}, p99 ${p99.toFixed(1)} us`,
    `over time ${millions(Math.min(...overTime))}-${millions(Math.max(...overTime))}`,
  ].join('; ');
}
