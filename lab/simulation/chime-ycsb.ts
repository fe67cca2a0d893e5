import { Prng } from '../../src/random/prng.ts';
import { distribution } from '../workloads/index.ts';
import {
  CHIME_HARDWARE,
  chimeCluster,
  chimeKind,
  HOTSPOTS,
  RECORDS,
  rateRow,
} from './chime-load.ts';
import type { Experiment, Settings } from './experiment.ts';
import { measureAtRest, periodNs, type Saturation } from './saturation.ts';
import { YCSB, YcsbWork, type YcsbWorkload } from './ycsb-work.ts';

/** Leaves per doorbell: enough for 100 items. */
const SCAN_WIDTH = 4;
/** With 60,000 records, hundreds of clients that insert would fight for 30 internal nodes. */
const RECORDS_OF_LOAD = 600_000;

/** CHIME's authors measure the loading as a workload of its own, and leave out F. */
const WORKLOADS: readonly YcsbWorkload[] = [
  { name: 'LOAD', steps: ['insert', 'insert'], other: 0 },
  ...YCSB.filter(({ name }) => name !== 'F'),
];

/** YCSB as CHIME's authors ran it. The paper only plots its rates. */
export const chimeYcsb: Experiment = ycsb('chime-ycsb', [80, 320, 640], {}, 8, 'Figure 12');

/** The same with values of 32 bytes, all outside the leaves ("CHIME-Indirect"). */
export const chimeIndirect: Experiment = ycsb(
  'chime-indirect',
  [320],
  { inlineBytes: 0 },
  32,
  'Figure 13',
);

function ycsb(
  name: string,
  counts: readonly number[],
  wishes: Readonly<Record<string, number>>,
  valueBytes: number,
  figure: string,
): Experiment {
  return {
    name,
    hardware: CHIME_HARDWARE,
    run(settings) {
      const rows = WORKLOADS.flatMap((workload) =>
        counts.map((clients) => {
          const run = measure(settings, workload, clients, wishes, valueBytes);
          return rateRow(`${workload.name}, ${clients} clients`, run);
        }),
      );
      const notes = [
        `${RECORDS} records at first (LOAD: ${RECORDS_OF_LOAD}), keys of 8 bytes, values of`,
        `${valueBytes}; Zipf 0.99, D the latest. The clients of a compute node share the nodes`,
        `that they cache and a hotspot buffer for ${HOTSPOTS} keys. One operation of a client is`,
        'in flight. The paper has 60 million records, and draws its rates only.',
      ];
      return { title: `CHIME: YCSB (${figure})`, rows, notes };
    },
  };
}

function measure(
  settings: Settings,
  workload: YcsbWorkload,
  clients: number,
  wishes: Readonly<Record<string, number>>,
  valueBytes: number,
): Saturation {
  const kind = chimeKind({ wishes, hotspots: HOTSPOTS });
  const records = workload.name === 'LOAD' ? RECORDS_OF_LOAD : RECORDS;
  const cluster = chimeCluster(settings, kind, clients, valueBytes, records);
  const { network } = cluster;
  const prng = Prng.fromSeed(settings.seed);
  const chosen = distribution(workload.latest ? 'latest' : 'zipf', records, prng.fork(1));
  const scanWidth = SCAN_WIDTH;
  const work = new YcsbWork({ cluster, workload, prng, chosen, records, scanWidth });
  const period = periodNs(settings.operations, clients);
  return measureAtRest(network, period, (ended) => {
    for (let i = 0; i < clients; i++) {
      const client = cluster.addClient(i % network.computeNics.length);
      client.begin({
        next: (request) => work.next(client, request),
        ended: (_, latencyNs) => ended(latencyNs),
      });
    }
  });
}
