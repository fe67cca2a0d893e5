import { CHIME_HARDWARE, HOTSPOTS, RECORDS, rateRow, ratioRow, runChime } from './chime-load.ts';
import type { PlainReads } from './chime-reads.ts';
import type { Experiment } from './experiment.ts';

const CLIENTS = 320;

interface Step {
  name: string;
  plain?: PlainReads;
  hotspots?: number;
  /** Throughput relative to the previous step, in the paper's YCSB C. */
  published?: number;
}

const STEPS: readonly Step[] = [
  { name: 'whole leaves, metadata apart', plain: { whole: true, apart: true } },
  { name: '+ hopscotch leaf', plain: { whole: false, apart: true }, published: 2.3 },
  { name: '+ metadata with it', plain: { whole: false, apart: false }, published: 1.6 },
  { name: '+ sibling-based validation', published: 1 },
  { name: '+ speculative read', hotspots: HOTSPOTS, published: 1 },
];

/** The techniques of a search, added one after another. */
export const chimeSteps: Experiment = {
  name: 'chime-steps',
  hardware: CHIME_HARDWARE,
  run(settings) {
    const runs = STEPS.map((step) => ({
      step,
      is: runChime(settings, { clients: CLIENTS, ...step }),
    }));
    const rows = runs.flatMap(({ step: { name, published }, is }, i) => {
      const row = rateRow(`searches, ${name}`, is);
      if (i === 0) return [row];
      const before = runs[i - 1].is;
      const faster = before.latencies.quantile(0.5) / is.latencies.quantile(0.5);
      return [
        row,
        ratioRow(`${name}: searches, to the step before`, is.rate / before.rate, published),
        ratioRow(`${name}: median latency of the step before to this one's`, faster),
      ];
    });
    const notes = [
      `${CLIENTS} clients on 10 compute nodes, one memory node, YCSB C (Zipf 0.99) of ${RECORDS}`,
      'records. The paper’s vacancy bitmap (1.6 x of insertions) cannot be left out here: the lock',
      'brings it.',
    ];
    return { title: 'CHIME: contributions of its techniques (Figure 15a)', rows, notes };
  },
};
