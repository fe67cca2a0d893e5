import { ROUND_TRIPS } from '../../src/verbs/traffic.ts';
import { growthsOf } from '../support/counters.ts';
import type { Experiment, Row, Settings } from './experiment.ts';
import { dipsOf, type Growth, grow } from './growth.ts';
import { registeredKind } from './registered-kind.ts';

const CLIENTS = 36;
const INSERTS_PER_OPERATION = 10;
const INTERVAL_NS = 1_000_000;

/** Tables that start with about the same number of entries. */
const INDEXES = [
  { name: 'shard', wishes: { buckets: 256 } },
  { name: 'race', wishes: { initialDepth: 4 } },
  { name: 'sephash', wishes: { initialDepth: 4 } },
] as const;

/** SHARD section 4.5: at least this many times the throughput of the other index. */
const PUBLISHED: Record<string, number> = { race: 2.8, sephash: 4.8 };

/** Insertions over time while the index grows, of three indexes in one run. */
export const shardResizing: Experiment = {
  name: 'shard-resizing',
  run(settings) {
    const runs = INDEXES.map(({ name, wishes }) => ({
      name,
      growth: growthOf(settings, name, wishes),
    }));
    const [shard] = runs;
    const rows = runs.map(({ name, growth }) => rowOf(settings, name, growth));
    for (const { name, growth } of runs.slice(1)) {
      rows.push({
        what: `shard to ${name}`,
        ours: shard.growth.rate / growth.rate,
        unit: 'x',
        published: PUBLISHED[name],
      });
    }
    const notes = [
      `${CLIENTS} clients of one memory node insert new keys into a growing index.`,
      'Below half: milliseconds with less than half of the index’s median throughput. The paper’s',
      'indexes hold 10^12 entries and recover from a resize in 0.3 s (SHARD), 0.8 s (SepHash) and',
      '4.8 s (RACE). The tables here are so much smaller that only the order is comparable.',
    ];
    return { title: 'Throughput while resizing (Figure 16)', rows, notes };
  },
};

function growthOf(settings: Settings, name: string, wishes: Record<string, number>): Growth {
  const kind = registeredKind(name, wishes);
  const inserts = INSERTS_PER_OPERATION * settings.operations;
  return grow(settings, { kind, clients: CLIENTS, inserts, intervalNs: INTERVAL_NS });
}

function rowOf(settings: Settings, name: string, growth: Growth): Row {
  const { rate, overTime, latencies, traffic, clients } = growth;
  const { median, worst, below } = dipsOf(overTime, INTERVAL_NS);
  const inserts = INSERTS_PER_OPERATION * settings.operations;
  const growths = clients.reduce((sum, { index }) => sum + growthsOf(index), 0);
  const figures = {
    median: median / 1e6,
    worst,
    below,
    growths,
    p99: latencies.quantile(0.99) / 1000,
    maximum: latencies.maximum / 1000,
    roundTrips: traffic[ROUND_TRIPS] / inserts,
    overTime,
  };
  return {
    what: `${name}: insertions`,
    ours: rate / 1e6,
    unit: 'M/s',
    detail: [
      `worst ms ${(100 * worst).toFixed(0)} % of the median ${figures.median.toFixed(2)}`,
      `below half for ${below} ms`,
      `${figures.roundTrips.toFixed(2)} round trips`,
      `p99 ${figures.p99.toFixed(0)}, longest ${figures.maximum.toFixed(0)} us`,
      `grew ${growths} times`,
    ].join('; '),
    figures,
  };
}
