import type { ChimeIndex } from '../../src/indexes/chime/chime.ts';
import type { ChimeRequest } from '../../src/indexes/chime/request.ts';
import { ALWAYS } from '../../src/indexes/contract.ts';
import type { Request } from '../../src/indexes/substrates/request.ts';
import { Prng } from '../../src/random/prng.ts';
import type { Operation } from '../../src/verbs/index.ts';
import { Histogram } from '../simulated/histogram.ts';
import { type Distribution, distribution } from '../workloads/index.ts';
import {
  CHIME_HARDWARE,
  chimeCluster,
  chimeKind,
  HOTSPOTS,
  RECORDS,
  rateRow,
} from './chime-load.ts';
import type { SimulatedCluster } from './cluster.ts';
import type { Experiment, Settings } from './experiment.ts';
import type { PoolClient } from './pool-client.ts';
import type { Saturation } from './saturation.ts';

/** CHIME section 5.1: scans are of up to 100 items. */
const SCAN_KEYS_MAX = 100;
/** Leaves in a doorbell: as many as 100 items may take. */
const SCAN_WIDTH = 4;
const NS_PER_OPERATION = 500;
const NS_PER_CLIENT = 4000;

type Step = 'search' | 'update' | 'insert' | 'scan';

interface Workload {
  name: string;
  /** The first step, and how often, of 100, it is the other. */
  steps: readonly [Step, Step];
  other: number;
  latest?: boolean;
}

const WORKLOADS: readonly Workload[] = [
  { name: 'LOAD', steps: ['insert', 'insert'], other: 0 },
  { name: 'A', steps: ['search', 'update'], other: 50 },
  { name: 'B', steps: ['search', 'update'], other: 5 },
  { name: 'C', steps: ['search', 'search'], other: 0 },
  { name: 'D', steps: ['search', 'insert'], other: 5, latest: true },
  { name: 'E', steps: ['scan', 'insert'], other: 5 },
];

/** YCSB as CHIME's authors ran it; the paper's rates are only drawn. */
export const chimeYcsb: Experiment = ycsb('chime-ycsb', [80, 320, 640], {}, 8, 'Figure 12');

/** The same with all items behind pointers: "CHIME-Indirect", 32-byte values. */
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
        `${RECORDS} records at first, keys of 8 bytes, values of ${valueBytes}; Zipf 0.99, D the`,
        `latest; ${HOTSPOTS} keys in a hotspot buffer that all clients share, no delegation, one`,
        'operation of a client in flight. The paper has 60 million, and draws its rates only.',
      ];
      return { title: `CHIME: YCSB (${figure})`, rows, notes };
    },
  };
}

function measure(
  settings: Settings,
  workload: Workload,
  clients: number,
  wishes: Readonly<Record<string, number>>,
  valueBytes: number,
): Saturation {
  const kind = chimeKind({ wishes, hotspots: HOTSPOTS });
  const cluster = chimeCluster(settings, kind, clients, valueBytes);
  const { network } = cluster;
  const prng = Prng.fromSeed(settings.seed);
  const chosen = distribution(workload.latest ? 'latest' : 'zipf', RECORDS, prng.fork(1));
  const steps = new Steps(cluster, workload, prng, chosen);
  const latencies = new Histogram();
  const ns = settings.operations * NS_PER_OPERATION + clients * NS_PER_CLIENT;
  for (let i = 0; i < clients; i++) {
    const client = cluster.addClient(i % network.computeNics.length);
    client.begin({
      next: (request) => steps.next(client, request),
      ended(_, latencyNs) {
        if (network.now >= ns) latencies.record(latencyNs);
      },
    });
  }
  network.run(ns);
  network.beginMeasurement();
  network.run(2 * ns);
  return { rate: (latencies.count * 1e9) / ns, overTime: [], latencies, use: network.measure() };
}

/** The operations of a workload. */
class Steps {
  readonly #cluster: SimulatedCluster<ChimeIndex>;
  readonly #workload: Workload;
  readonly #prng: Prng;
  readonly #chosen: Distribution;
  #inserted = RECORDS;

  constructor(
    cluster: SimulatedCluster<ChimeIndex>,
    workload: Workload,
    prng: Prng,
    chosen: Distribution,
  ) {
    this.#cluster = cluster;
    this.#workload = workload;
    this.#prng = prng;
    this.#chosen = chosen;
  }

  next({ index, records }: PoolClient<ChimeIndex>, request: Request): Operation<unknown> {
    const { steps, other } = this.#workload;
    const step = steps[this.#prng.below(100) < other ? 1 : 0];
    const { keys, values } = this.#cluster;
    const record = step === 'insert' ? this.#inserted++ : this.#chosen.next();
    const key = keys.bytes(record);
    if (step === 'scan') return scan(index, key, 1 + this.#prng.below(SCAN_KEYS_MAX));
    if (step === 'search') {
      request.setKey(key, index.hashSeed);
      return index.search(request as ChimeRequest);
    }
    records.encode(request, key, values.buffer(record, 1), index.hashSeed, 0);
    return index.write(request as ChimeRequest, ALWAYS);
  }
}

function* scan(index: ChimeIndex, key: Uint8Array, limit: number): Operation<void> {
  const lower = { key, inclusive: true };
  const all = index.scan({ lower, limit, width: SCAN_WIDTH });
  while (!all.done) yield* all.next(() => {});
}
