import type { Clock } from '../support/clock.ts';
import type { Experiment } from './experiment.ts';
import { HALF_FULL_RECORDS, halfFullCluster } from './half-full.ts';
import { runPhase } from './phases.ts';

const CLIENTS = 64;
const COROUTINES = 4;
const COMPUTE_NODES = 4;
const ROUNDS = 3;

/**
 * How fast the simulation itself runs. Verbs per second of the process's CPU time show what one
 * core can do even on a busy machine.
 */
export function speed(wallClock: Clock, cpuClock: Clock): Experiment {
  return {
    name: 'speed',
    run(settings) {
      const cluster = halfFullCluster(settings, { clients: CLIENTS, computeNodes: COMPUTE_NODES });
      const clients = Array.from({ length: CLIENTS }, (_, i) =>
        cluster.addClient(i % COMPUTE_NODES, COROUTINES),
      );
      const count = HALF_FULL_RECORDS;
      const begun = { wall: wallClock(), cpu: cpuClock() };
      for (let round = 0; round < ROUNDS; round++) {
        runPhase(cluster, clients, { kind: 'search', from: 0, count, seed: settings.seed });
      }
      const thousands = (ns: bigint) => (cluster.network.answered * 1e6) / Number(ns);
      const what = `searches of ${CLIENTS} clients x ${COROUTINES}`;
      const unit = 'k verbs/s';
      const rows = [
        { what: `${what}, by wall clock`, ours: thousands(wallClock() - begun.wall), unit },
        { what: `${what}, by CPU time`, ours: thousands(cpuClock() - begun.cpu), unit },
      ];
      return { title: 'Simulated verbs in a second of real time', rows, notes: [] };
    },
  };
}
