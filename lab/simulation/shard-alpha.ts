import { SHARD_TECHNIQUES } from '../../src/indexes/shard/parameters.ts';
import type { ShardIndex } from '../../src/indexes/shard/shard.ts';
import type { ShardTable } from '../../src/indexes/shard/table/table.ts';
import { without } from '../../src/indexes/substrates/parameters.ts';
import { ADDS, ROUND_TRIPS } from '../../src/verbs/traffic.ts';
import type { Experiment, Row, Settings } from './experiment.ts';
import { grow } from './growth.ts';
import { registeredKind } from './registered-kind.ts';

/** Values of alpha, in ten-thousandths: 1e-4 to 10, as in Figure 18. */
const ALPHAS = [1, 10, 100, 1000, 10_000, 100_000] as const;
const UNIT = 10_000;
/** Where the paper's curve has its maximum. */
const BEST = 0.1;
const CLIENTS = 36;
/** In a smaller table all clients would move the same buckets. */
const BUCKETS = 256;
/** Insertions per operation of the settings: enough for several resizes. */
const INSERTS_PER_OPERATION = 5;

/** How alpha, the constant of adaptive frequency synchronisation, affects insertions. */
export const shardAlpha: Experiment = {
  name: 'shard-alpha',
  run(settings) {
    const rows = ALPHAS.map((alpha) => rowOf(settings, alpha, false));
    const best = rows.reduce((a, b) => (b.ours > a.ours ? b : a));
    const at = ALPHAS[rows.indexOf(best)] / UNIT;
    rows.push(rowOf(settings, BEST * UNIT, true));
    rows.push({ what: 'alpha with the most insertions', ours: at, unit: '', published: BEST });
    const notes = [
      `${CLIENTS} clients of one memory node insert into a table that is resized as it grows.`,
      'Synchronisations: FAA of the records and READ of the root, one round trip. Measured alpha:',
      'the median of writes to the next synchronisation by entries up to the threshold; it is less',
      'than what was set where that would be below 1 write, or while the distance still doubles.',
    ];
    return { title: 'SHARD: alpha of adaptive frequency synchronisation (Figure 18)', rows, notes };
  },
};

/** With the paper's formula alone, or bounded by each client's share of the insertions. */
function rowOf(settings: Settings, alpha: number, isBounded: boolean): Row {
  const inserts = INSERTS_PER_OPERATION * settings.operations;
  const techniques = isBounded ? {} : without(SHARD_TECHNIQUES, 'shares');
  const kind = registeredKind<ShardIndex>('shard', { alpha, buckets: BUCKETS, ...techniques });
  const measured: number[] = [];
  const { rate, clients, traffic, latencies } = grow(settings, {
    kind,
    clients: CLIENTS,
    inserts,
    observe({ index: { table } }) {
      if (table.writes === 0) measured.push(measuredAlpha(table));
    },
  });
  const sum = (count: (index: ShardIndex) => number) =>
    clients.reduce((total, { index }) => total + count(index), 0);
  const figures = {
    roundTrips: traffic[ROUND_TRIPS] / inserts,
    synchronisations: traffic[ADDS] / inserts,
    resizes: sum(({ table }) => table.resizes),
    moved: sum(({ table }) => table.bucketsMoved),
    claims: sum(({ counters }) => counters.withdrawn + counters.pendingKey),
    p99: latencies.quantile(0.99) / 1000,
    measuredAlpha: medianOf(measured.filter((each) => each > 0)),
  };
  return {
    what: `alpha ${alpha / UNIT}${isBounded ? ', bounded by shares' : ''}`,
    ours: rate / 1e6,
    unit: 'M/s',
    detail: [
      `${figures.roundTrips.toFixed(2)} round trips`,
      `measured ${figures.measuredAlpha.toPrecision(2)}`,
      `${(100 * figures.synchronisations).toFixed(1)} % of insertions synchronise`,
      `${figures.resizes} resizes`,
      `p99 ${figures.p99.toFixed(1)} us`,
    ].join('; '),
    figures,
  };
}

/** Right after a synchronisation; 0 when the load is beyond the threshold. */
function measuredAlpha({ geometry, segments, reported, syncEvery }: ShardTable): number {
  const limit = (geometry.capacityAt(segments.version) * geometry.shape.threshold) / 100;
  return reported < limit ? syncEvery / (limit - reported) : 0;
}

function medianOf(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}
