import { percent } from '../support/text.ts';
import type { Experiment, Row, Settings } from './experiment.ts';
import { byKind, fourPhases } from './four-phases.ts';
import { halfFullCluster } from './half-full.ts';
import type { Kind } from './operations.ts';

/** RACE Figure 21: speedup of 16 coroutines over one. From 8 on, throughput stays the same. */
const GAIN_OF_16: Record<Kind, number> = { insert: 2.2, search: 2.6, delete: 2.7, update: 2.4 };

const COROUTINES = [1, 2, 4, 8, 16] as const;

/** One client thread with 1 to 16 coroutines. */
export const coroutines: Experiment = {
  name: 'coroutines',
  run(settings) {
    const runs = COROUTINES.map((count) => ratesOf(settings, count));
    const gain = (kind: Kind, run: number) => runs[run].rates[kind] / runs[0].rates[kind];
    const all = (kind: Kind) =>
      COROUTINES.map((count, run) => `${count}: ${gain(kind, run).toFixed(2)}`).join(', ');
    const rows: Row[] = byKind((kind) => ({
      what: `${kind}: 16 coroutines to 1`,
      ours: gain(kind, COROUTINES.length - 1),
      unit: 'x',
      published: GAIN_OF_16[kind],
      detail: `by coroutines ${all(kind)}`,
    }));
    rows.push(
      ...byKind((kind) => ({
        what: `${kind}: 16 coroutines to 8`,
        ours: gain(kind, 4) / gain(kind, 3),
        unit: 'x',
        published: 1,
      })),
    );
    const busy = runs.map(({ cpu }, i) => `${COROUTINES[i]}: ${percent(cpu, 0)}`);
    const notes = [
      `CPU of the client thread while it deletes, by coroutines: ${busy.join(', ')}.`,
      'The CPU costs are fitted to this figure and the paper’s numbers of verbs. Differences come',
      'from additional verbs of our operations. Figures 17, 18 and 22 are not fitted.',
    ];
    return { title: 'Coroutines of one client thread (Figure 21)', rows, notes };
  },
};

function ratesOf(settings: Settings, count: number) {
  const cluster = halfFullCluster(settings);
  const phases = fourPhases(cluster, [cluster.addClient(0, count)], settings);
  const cpu = cluster.network.measure().clientCpu.most;
  const { insert, search, update } = phases;
  const rates: Record<Kind, number> = {
    insert: insert.rate,
    search: search.rate,
    update: update.rate,
    delete: phases.delete.rate,
  };
  return { rates, cpu };
}
