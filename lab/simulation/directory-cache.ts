import type { Experiment, Settings } from './experiment.ts';
import { byKind, fourPhases } from './four-phases.ts';
import { halfFullCluster, RACE_TABLE } from './half-full.ts';
import { doubled, type IndexKind } from './index-kind.ts';
import type { Kind } from './operations.ts';
import { UncachedRace } from './uncached-directory.ts';

/** RACE Figure 17: how much latency the client's directory cache saves, in percent. */
const SAVED_PERCENT: Record<Kind, number> = { insert: 23, search: 32, delete: 24, update: 23 };

const UNCACHED = doubled(RACE_TABLE, (race) => new UncachedRace(race));

/** The cost of reading the directory entry before each operation. */
export const directoryCache: Experiment = {
  name: 'cache',
  run(settings) {
    const cached = meansOf(settings, RACE_TABLE);
    const uncached = meansOf(settings, UNCACHED);
    const rows = byKind((kind) => ({
      what: `${kind}: latency saved`,
      ours: 100 * (1 - cached[kind].latencies.mean / uncached[kind].latencies.mean),
      unit: '%',
      published: SAVED_PERCENT[kind],
    }));
    return { title: 'Client directory cache (Figure 17)', rows, notes: [] };
  },
};

function meansOf(settings: Settings, kind: IndexKind) {
  const cluster = halfFullCluster(settings, { kind });
  return fourPhases(cluster, [cluster.addClient()], settings);
}
