import { rateRow, ratioRow, runChime } from './chime-load.ts';
import type { PlainReads } from './chime-reads.ts';
import type { Experiment, Row, Settings } from './experiment.ts';

const CLIENTS = 320;
const HOTSPOTS = 8192;

interface Step {
  name: string;
  plain?: PlainReads;
  hotspots?: number;
  /** To the step before, in the paper's YCSB C. */
  published?: number;
}

const STEPS: readonly Step[] = [
  { name: 'whole leaves, metadata apart', plain: { whole: true, apart: true } },
  { name: '+ hopscotch leaf', plain: { whole: false, apart: true }, published: 2.3 },
  { name: '+ metadata with it', plain: { whole: false, apart: false }, published: 1.6 },
  { name: '+ remembered as sure' },
  { name: '+ speculative read', hotspots: HOTSPOTS, published: 1 },
];

/** As many bytes as the paper's leaf of 64 entries with keys and values (1,316): here 1,288. */
const SPAN_OF_BYTES = 160;

/**
 * The step from whole leaves to neighbourhoods where only bandwidth is the limit, as in the paper's
 * cluster: its NICs process more messages than those of the model.
 */
function byBandwidthAlone(settings: Settings): Row[] {
  const model = { ...settings.model, messagesPerSecond: Number.POSITIVE_INFINITY };
  const wishes = { span: SPAN_OF_BYTES };
  const [whole, some] = [true, false].map((all) =>
    runChime({ ...settings, model }, { clients: 640, wishes, plain: { whole: all, apart: false } }),
  );
  return [
    rateRow('searches, whole leaves of 1,288 bytes, bandwidth alone', whole),
    rateRow('searches, neighbourhoods of them, bandwidth alone', some),
    ratioRow('bandwidth alone: neighbourhoods to whole leaves', some.rate / whole.rate, 2.3),
  ];
}

/** The techniques of a search, one added to the other. */
export const chimeSteps: Experiment = {
  name: 'chime-steps',
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
      `${CLIENTS} clients on 10 compute nodes, one memory node, YCSB C (Zipf 0.99), the way`,
      'remembered. The paper’s steps of insertions (vacancy bitmap, 1.6 x) and of metadata bytes',
      '(sibling-based validation) have no counterpart: there is no lock to carry a bitmap, and no',
      'sibling pointer. "Remembered as sure" is this tree’s: no READ of metadata at all within an',
      'epoch.',
    ];
    rows.push(...byBandwidthAlone(settings));
    return { title: 'CHIME: contributions of its techniques (Figure 15)', rows, notes };
  },
};
