import type { Eviction, IndexName } from '../../src/store/api.ts';
import { type CountedCache, ExactLfu, ExactLru } from '../hit-rates/exact.ts';
import { scans, shifting, type Trace, zipf } from '../hit-rates/traces.ts';
import type { Plan } from './plan.ts';
import { withStore } from './shared-store.ts';

const KEYS = 10_000;
const REQUESTS = 200_000;
const POOL_BYTES = 64 * 2 ** 20;
const ROOM = 0.1;
/** The share of requests at the start that do not count, because the store is not full yet. */
const WARM_UP = 0.2;
const POLICIES: readonly Eviction[] = ['lru', 'lfu', 'adaptive'];

interface Row {
  trace: string;
  index: IndexName;
  eviction: Eviction;
  exact: number | undefined;
  /** Hits in percent of the requests, by the number of processes. */
  rates: number[];
}

/** Hit rates of a store that several processes read and fill at the same time. */
export async function sharedHitRates({ indexes, processes }: Plan): Promise<Row[]> {
  const rows: Row[] = [];
  console.log(`Percent of requests that hit, with room for a tenth of ${KEYS} keys`);
  console.log(`trace      index      policy      exact   by ${processes.join(', ')} processes`);
  for (const trace of [zipf, scans, shifting].map((make) => make(KEYS, REQUESTS, 1))) {
    for (const index of indexes) {
      for (const eviction of POLICIES) {
        const rates: number[] = [];
        for (const count of processes) rates.push(await rateOf(trace, index, eviction, count));
        const row = { trace: trace.name, index, eviction, exact: exactOf(trace, eviction), rates };
        rows.push(row);
        console.log(lineOf(row));
      }
    }
  }
  return rows;
}

async function rateOf(
  trace: Trace,
  index: IndexName,
  eviction: Eviction,
  processes: number,
): Promise<number> {
  const options = { size: POOL_BYTES, maxRecords: KEYS * ROOM, eviction };
  return await withStore(index, processes, options, async ({ crew }) => {
    const own = (i: number) => trace.requests.filter((_, at) => at % processes === i);
    const counted = Math.floor(((1 - WARM_UP) * REQUESTS) / processes);
    const done = await crew.all((i) => ({ kind: 'request', keys: own(i), counted }));
    const hits = done.reduce((sum, one) => sum + one.hits, 0);
    return (100 * hits) / (counted * processes);
  });
}

function exactOf({ requests }: Trace, eviction: Eviction): number | undefined {
  if (eviction === 'adaptive') return undefined;
  const cache: CountedCache = new (eviction === 'lru' ? ExactLru : ExactLfu)(KEYS * ROOM);
  const first = Math.floor(WARM_UP * requests.length);
  let hits = 0;
  requests.forEach((key, i) => {
    if (cache.request(key) && i >= first) hits++;
  });
  return (100 * hits) / (requests.length - first);
}

function lineOf({ trace, index, eviction, exact, rates }: Row): string {
  const left = trace.padEnd(11) + index.padEnd(11) + eviction.padEnd(10);
  const shown = rates.map((rate) => rate.toFixed(1).padStart(7)).join('');
  return `${left}${(exact?.toFixed(1) ?? '').padStart(7)}   ${shown}`;
}
