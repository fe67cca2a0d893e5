import { percent } from '../support/text.ts';
import type { Experiment, Row, Settings } from './experiment.ts';
import { HALF_FULL_RECORDS, halfFullCluster, RACE_TABLE } from './half-full.ts';
import { doubled, type IndexKind } from './index-kind.ts';
import { runPhase } from './phases.ts';
import { withRemoteAllocation } from './remote-allocation.ts';

const REMOTE = doubled(RACE_TABLE, withRemoteAllocation);

/** RACE Figure 22: without pre-allocation, latency is "more than" this many times higher. */
const RATIO_AT_LEAST = 2;

/** The paper does not say how many clients Figure 22 has; its testbed has up to 128. */
const CLIENTS = [1, 8, 32, 128] as const;
const COMPUTE_NODES = 4;
/** Guesses for the memory node's time per call, which no source gives. */
const CALL_MICROSECONDS = [2, 4, 6, 8] as const;

/** Claiming blocks ahead, compared with a call to the memory node's only thread per block. */
export const preallocation: Experiment = {
  name: 'preallocation',
  run(settings) {
    const { model } = settings;
    const rows = CLIENTS.flatMap((clients) => rowsOf(settings, clients, RATIO_AT_LEAST));
    for (const microseconds of CALL_MICROSECONDS) {
      const slower = { ...settings, model: { ...model, callNs: 1000 * microseconds } };
      rows.push(...rowsOf(slower, 1));
    }
    const notes = [
      'Load factor 0.5. The paper says "more than 2x" and not for how many clients.',
      `A call of ${model.callNs} ns is the model’s; the rows with others are no reproduction.`,
    ];
    return { title: 'Pre-allocation (Figure 22)', rows, notes };
  },
};

/** By kind of operation: latency with a call per block, relative to claiming ahead. */
function rowsOf(settings: Settings, clients: number, published?: number): Row[] {
  const ahead = meansOf(settings, RACE_TABLE, clients);
  const remote = meansOf(settings, REMOTE, clients);
  return (['insert', 'update'] as const).map((kind) => ({
    what: `${kind}, ${clients} clients, call of ${settings.model.callNs} ns`,
    ours: remote[kind] / ahead[kind],
    unit: 'x',
    published,
    detail:
      `${remote[kind].toFixed(2)} and ${ahead[kind].toFixed(2)} us; ` +
      `call thread busy ${percent(remote.calls, 0)}`,
  }));
}

function meansOf(settings: Settings, kind: IndexKind, count: number) {
  const options = { kind, clients: count, computeNodes: COMPUTE_NODES };
  const cluster = halfFullCluster(settings, options);
  const clients = Array.from({ length: count }, (_, i) => cluster.addClient(i % COMPUTE_NODES));
  const { operations, seed } = settings;
  const run = (phase: 'insert' | 'update') =>
    runPhase(cluster, clients, {
      kind: phase,
      from: HALF_FULL_RECORDS,
      count: operations,
      seed,
    }).latencies.mean / 1000;
  const insert = run('insert');
  const update = run('update');
  return { insert, update, calls: cluster.network.measure().memoryNodes[0].calls };
}
