import {
  CHIME_HARDWARE,
  type ChimeLoad,
  HOTSPOTS,
  RECORDS,
  rateRow,
  ratioRow,
  runChime,
} from './chime-load.ts';
import type { Experiment, Row, Settings } from './experiment.ts';
import type { Saturation } from './saturation.ts';

const CLIENTS = 640;
const WHOLE = { whole: true, apart: false };

interface Sweep {
  title: string;
  cases: readonly (Partial<ChimeLoad> & { name: string })[];
  /** Throughput of the last case relative to the first, where the paper's text gives it. */
  published?: number;
}

const spans = [8, 32, 64, 256];
const SWEEPS: readonly Sweep[] = [
  {
    title: '18a, half updates, Zipf',
    cases: [0.5, 0.8, 0.99].map((theta) => ({
      name: `${theta}`,
      theta,
      updates: 0.5,
      clients: 40,
      coroutines: 8,
    })),
  },
  {
    title: '18a, a client for each machine, Zipf',
    cases: [0.5, 0.8, 0.99].map((theta) => ({
      name: `${theta}`,
      theta,
      updates: 0.5,
      clients: 10,
      coroutines: 64,
    })),
  },
  {
    title: '18b, memory of each client in KiB',
    cases: [1, 8, 64, 512].map((cacheKiB) => ({ name: `${cacheKiB}`, wishes: { cacheKiB } })),
  },
  {
    title: '18c, bytes of inline values',
    cases: [8, 64, 128, 224].map((valueBytes) => ({
      name: `${valueBytes}`,
      valueBytes,
      wishes: { inlineBytes: 8 + valueBytes },
    })),
  },
  {
    title: '18d, bytes of indirect values',
    cases: [8, 64, 512].map((valueBytes) => ({
      name: `${valueBytes}`,
      valueBytes,
      wishes: { inlineBytes: 0 },
    })),
    published: 1,
  },
  {
    title: '18e, span',
    cases: spans.map((span) => ({ name: `${span}`, wishes: { span } })),
  },
  {
    title: '18e, span, whole leaves read',
    cases: spans.map((span) => ({ name: `${span}`, wishes: { span }, plain: WHOLE })),
  },
  {
    title: '18f, neighbourhood',
    cases: [2, 4, 8, 16].map((neighbourhood) => ({
      name: `${neighbourhood}`,
      wishes: { neighbourhood },
    })),
    published: 1 / 1.1,
  },
];

/** How CHIME's throughput depends on the parameters of the tree and of the workload. */
export const chimeSensitivity: Experiment = {
  name: 'chime-sensitivity',
  hardware: CHIME_HARDWARE,
  run(settings) {
    const notes = [
      `YCSB C (Zipf 0.99) of ${CLIENTS} clients, ${RECORDS} records, unless said otherwise.`,
      `${HOTSPOTS} keys in the hotspot buffer.`,
      '18a: clients have 8 or 64 operations in flight, take turns at a leaf and combine writes.',
      'Values of more than 232 bytes do not stand in leaves here (18c has 512: 9.4 times slower).',
    ];
    const rows = SWEEPS.flatMap((sweep) => rowsOf(settings, sweep));
    return { title: 'CHIME: sensitivity (Figure 18)', rows, notes };
  },
};

function rowsOf(settings: Settings, { title, cases, published }: Sweep): Row[] {
  const runs: Saturation[] = cases.map(({ name: _, ...load }) =>
    runChime(settings, { clients: CLIENTS, hotspots: HOTSPOTS, ...load }),
  );
  const rows = runs.map((run, i) => rateRow(`${title}: ${cases[i].name}`, run));
  const last = runs.length - 1;
  const what = `${title}: ${cases[last].name} to ${cases[0].name}`;
  return [...rows, ratioRow(what, runs[last].rate / runs[0].rate, published)];
}
