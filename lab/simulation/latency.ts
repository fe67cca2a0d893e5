import type { Experiment, Row } from './experiment.ts';
import { byKind, fourPhases } from './four-phases.ts';
import { halfFullCluster } from './half-full.ts';

/** Median insert of one client in SepHash's port of RACE (SepHash, section 5.2.1). */
const INSERT_MEDIAN_US = 7.4;

/** RACE 3.3 and Figure 7: round trips. */
const ROUND_TRIPS = { insert: 3, search: 2, delete: 3, update: 3 } as const;

/** The latency of each operation with one client and one coroutine. */
export const latency: Experiment = {
  name: 'latency',
  run(settings) {
    const cluster = halfFullCluster(settings);
    const phases = fourPhases(cluster, [cluster.addClient()], settings);
    const median = (kind: keyof typeof phases) => phases[kind].latencies.quantile(0.5) / 1000;
    const rows: Row[] = byKind((kind) => ({
      what: `${kind}, median`,
      ours: median(kind),
      unit: 'us',
      published: kind === 'insert' ? INSERT_MEDIAN_US : undefined,
      detail: `mean ${(phases[kind].latencies.mean / 1000).toFixed(2)}, 99 % ${(
        phases[kind].latencies.quantile(0.99) / 1000
      ).toFixed(2)}`,
    }));
    for (const kind of ['insert', 'delete', 'update'] as const) {
      rows.push({
        what: `${kind} to search`,
        ours: median(kind) / median('search'),
        unit: 'x',
        published: ROUND_TRIPS[kind] / ROUND_TRIPS.search,
      });
    }
    const notes = [
      'The published insert is that of SepHash’s port of RACE; the ratios are of round trips.',
    ];
    return { title: 'Latency of one client', rows, notes };
  },
};
