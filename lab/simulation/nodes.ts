import type { RaceShape } from '../../src/indexes/race/geometry.ts';
import { percent } from '../support/text.ts';
import { SimulatedCluster } from './cluster.ts';
import type { Experiment, Row, Settings } from './experiment.ts';
import { raceKind } from './index-kind.ts';
import { saturate } from './saturation.ts';

/** Enough subtables to spread their chunks evenly over the memory nodes. */
const SHAPE: RaceShape = { associativity: 7, groups: 64, initialDepth: 10, maxDepth: 12, seed: 1 };
const RECORDS = 100_000;
const CLIENTS = 256;
const COMPUTE_NODES = 8;
const POOL_BYTES = 2 ** 29;
const MEMORY_NODES = [1, 2, 4] as const;

/** The same clients with more memory nodes: the gain, and what the order across nodes costs. */
export const nodes: Experiment = {
  name: 'nodes',
  run(settings) {
    const rows = (['search', 'update'] as const).flatMap((kind) =>
      MEMORY_NODES.flatMap((count) => [
        busyRow(settings, kind, count),
        idleRow(settings, kind, count),
      ]),
    );
    const notes = [
      `${COMPUTE_NODES} compute nodes, uniform keys; the pool's regions are on the nodes by turns.`,
      'A batch whose verbs are on two nodes keeps its order by waiting.',
    ];
    return { title: 'Several memory nodes', rows, notes };
  },
};

function runOf(
  settings: Settings,
  kind: 'search' | 'update',
  memoryNodes: number,
  clients: number,
) {
  const cluster = new SimulatedCluster({
    model: settings.model,
    seed: settings.seed,
    kind: raceKind(SHAPE),
    clients,
    poolBytes: POOL_BYTES,
    memoryNodes,
    computeNodes: COMPUTE_NODES,
  });
  cluster.load(RECORDS);
  return saturate(cluster, { kind, clients, coroutines: 1, records: RECORDS }, settings);
}

function busyRow(settings: Settings, kind: 'search' | 'update', memoryNodes: number): Row {
  const { rate, use } = runOf(settings, kind, memoryNodes, CLIENTS);
  const shares = use.memoryNodes.map(({ messages }) => percent(messages, 0));
  return {
    what: `${kind}, ${memoryNodes} memory nodes, ${CLIENTS} clients`,
    ours: rate / 1e6,
    unit: 'M/s',
    detail: `messages by node ${shares.join(', ')}`,
    figures: { messages: use.memoryNodes.map(({ messages }) => messages) },
  };
}

function idleRow(settings: Settings, kind: 'search' | 'update', memoryNodes: number): Row {
  const { latencies } = runOf(settings, kind, memoryNodes, 1);
  const what = `${kind}, ${memoryNodes} memory nodes, 1 client: mean latency`;
  return { what, ours: latencies.mean / 1000, unit: 'us' };
}
