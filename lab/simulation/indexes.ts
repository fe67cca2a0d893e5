import { INDEX_NAMES } from '../../src/indexes/kinds.ts';
import { subjectNamed } from '../verification/subjects/index.ts';
import type { Experiment } from './experiment.ts';
import { byKind, fourPhases } from './four-phases.ts';
import { halfFullCluster } from './half-full.ts';
import { registeredKind } from './registered-kind.ts';

/** One client of each index without servers, with default parameters. */
export const indexes: Experiment = {
  name: 'indexes',
  run(settings) {
    const alone = INDEX_NAMES.filter((name) => subjectNamed(name).servers === undefined);
    const rows = alone.flatMap((name) => {
      const cluster = halfFullCluster(settings, { kind: registeredKind(name) });
      const phases = fourPhases(cluster, [cluster.addClient()], settings);
      return byKind((kind) => {
        const { latencies } = phases[kind];
        const inUs = (share: number) => latencies.quantile(share) / 1000;
        const detail = `mean ${(latencies.mean / 1000).toFixed(2)}, 99 % ${inUs(0.99).toFixed(2)}`;
        return { what: `${name}: ${kind}, median`, ours: inUs(0.5), unit: 'us', detail };
      });
    });
    return { title: 'Latency of one client of each index', rows, notes: [] };
  },
};
