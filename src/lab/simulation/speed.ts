import type { Clock } from '../support/clock.ts';
import type { Experiment } from './experiment.ts';
import { HALF_FULL_RECORDS, halfFullCluster } from './half-full.ts';
import { runPhase } from './phases.ts';

const CLIENTS = 64;
const COMPUTE_NODES = 4;

/** How fast the simulation itself is: verbs that it executes in a second of real time. */
export function speed(clock: Clock): Experiment {
  return {
    name: 'speed',
    run(settings) {
      const cluster = halfFullCluster(settings, { clients: CLIENTS, computeNodes: COMPUTE_NODES });
      const clients = Array.from({ length: CLIENTS }, (_, i) =>
        cluster.addClient(i % COMPUTE_NODES, 4),
      );
      const count = HALF_FULL_RECORDS;
      const begun = clock();
      runPhase(cluster, clients, { kind: 'search', from: 0, count, seed: settings.seed });
      const seconds = Number(clock() - begun) / 1e9;
      const rate = cluster.network.answered / seconds;
      const what = `searches of ${CLIENTS} clients x 4`;
      const rows = [{ what, ours: rate / 1000, unit: 'k verbs/s' }];
      return { title: 'Simulated verbs in a second of real time', rows, notes: [] };
    },
  };
}
