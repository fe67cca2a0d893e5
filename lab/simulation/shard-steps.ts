import { SHARD_TECHNIQUES, type ShardTechnique } from '../../src/indexes/shard/parameters.ts';
import type { ShardIndex } from '../../src/indexes/shard/shard.ts';
import { without } from '../../src/indexes/substrates/parameters.ts';
import { ROUND_TRIPS } from '../../src/verbs/traffic.ts';
import { SimulatedCluster } from './cluster.ts';
import type { Experiment, Row, Settings } from './experiment.ts';
import { dipsOf, grow } from './growth.ts';
import { registeredKind } from './registered-kind.ts';
import { saturate } from './saturation.ts';

const CLIENTS = 36;
const COMPUTE_NODES = 3;
const BUCKETS = 256;
const INSERTS_PER_OPERATION = 5;
const RECORDS = 12_000;
const INTERVAL_NS = 5_000_000;

/** SHARD section 4.6: techniques, added one after another. The last is not in the paper. */
const STEPS: readonly { name: string; adds?: ShardTechnique }[] = [
  { name: 'baseline' },
  { name: '+Ordered', adds: 'ordered' },
  { name: '+Lazy', adds: 'lazy' },
  { name: '+Combining', adds: 'combining' },
  { name: '+AFS', adds: 'adaptive' },
  { name: '+shares', adds: 'shares' },
];

/** Throughput relative to the previous technique, as the text of section 4.6 gives it. */
const PUBLISHED_WRITES: Record<string, number> = { '+Lazy': 1.5, '+AFS': 4.1 };
const PUBLISHED_READS: Record<string, number> = { '+Ordered': 1.4 };
const PUBLISHED_WORST: Record<string, number> = { '+Combining': 1.5 };

interface Step {
  name: string;
  reads: number;
  writes: number;
  worst: number;
  detail: string;
}

/** What each technique adds to insertions and searches. */
export const shardSteps: Experiment = {
  name: 'shard-steps',
  run(settings) {
    const steps = STEPS.map((step, i) => stepOf(settings, step, i));
    const rows = steps.flatMap((step, i): Row[] => {
      const before = steps[i - 1];
      const ofStep: Row[] = [
        { what: `${step.name}: insertions`, ours: step.writes, unit: 'M/s', detail: step.detail },
        { what: `${step.name}: searches`, ours: step.reads, unit: 'M/s' },
      ];
      return before === undefined ? ofStep : [...ofStep, ...gains(step, before)];
    });
    const notes = [
      `${CLIENTS} clients of one memory node, uniform keys. Worst: the slowest 5 ms while the`,
      'table is resized. The baseline is this index without its techniques, not the paper’s: its',
      'searches take no lock and need no technique, so Ordered-CAS has nothing to gain for them.',
      '+shares: F is bounded by the client’s share of the insertions, which is not the paper’s.',
    ];
    return { title: 'SHARD: contributions of its techniques (Figure 17)', rows, notes };
  },
};

function gains(step: Step, before: Step): Row[] {
  const { name } = step;
  const row = (what: string, ours: number, published?: number): Row => ({
    what: `${name}: ${what}, to the step before`,
    ours,
    unit: 'x',
    published,
  });
  const rows = [
    row('insertions', step.writes / before.writes, PUBLISHED_WRITES[name]),
    row('searches', step.reads / before.reads, PUBLISHED_READS[name]),
    row('worst 5 ms', step.worst / before.worst, PUBLISHED_WORST[name]),
  ];
  // Without lazy resizing, no client inserts during a resize, so the worst interval is 0.
  return rows.filter(({ ours }) => Number.isFinite(ours));
}

function stepOf(settings: Settings, { name }: (typeof STEPS)[number], step: number): Step {
  const left = STEPS.slice(step + 1).flatMap(({ adds }) => adds ?? []);
  const wishes = { buckets: BUCKETS, ...without(SHARD_TECHNIQUES, ...left) };
  const kind = registeredKind<ShardIndex>('shard', wishes);
  const inserts = INSERTS_PER_OPERATION * settings.operations;
  const intervalNs = INTERVAL_NS;
  const grown = grow(settings, { kind, clients: CLIENTS, inserts, intervalNs });
  const { median, worst } = dipsOf(grown.overTime, intervalNs);
  const { model, seed } = settings;
  const cluster = new SimulatedCluster({
    model,
    seed,
    kind,
    clients: CLIENTS,
    computeNodes: COMPUTE_NODES,
  });
  cluster.load(RECORDS);
  const load = { kind: 'search', clients: CLIENTS, coroutines: 1, records: RECORDS } as const;
  const { rate } = saturate(cluster, load, settings);
  const p99 = grown.latencies.quantile(0.99) / 1000;
  const trips = (grown.traffic[ROUND_TRIPS] ?? 0) / inserts;
  return {
    name,
    reads: rate / 1e6,
    writes: grown.rate / 1e6,
    worst: worst * median,
    detail: `${trips.toFixed(2)} round trips, p99 ${p99.toFixed(0)} us`,
  };
}
