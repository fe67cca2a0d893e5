import type { Eviction, IndexName } from '../../src/store/api.ts';
import { openSync } from '../../src/store/open.ts';
import { exactOf, hitRateOf, WARM_UP } from '../hit-rates/exact.ts';
import { scans, shifting, type Trace, zipf } from '../hit-rates/traces.ts';
import type { Plan } from './plan.ts';
import { withStoreOf } from './shared-store.ts';
import { COUNTER, Crew } from './tasks.ts';

const KEYS = 10_000;
const POOL_BYTES = 64 * 2 ** 20;
const ROOM = 0.1;
const POLICIES: readonly Eviction[] = ['lru', 'lfu', 'adaptive'];
/** Points that rates may differ by, and be below the exact cache's. */
const POINTS = 1;

interface Row {
  trace: string;
  index: IndexName;
  eviction: Eviction;
  exact: number;
  /** Hits in percent of the requests, by the number of processes. */
  rates: number[];
  /** Between the highest and the lowest of the rates. */
  spread: number;
  /** How much the lowest rate is below the exact cache's. */
  below: number;
}

/** Hit rates of a store that several processes read and fill at the same time. */
export async function sharedHitRates(plan: Plan): Promise<Row[]> {
  const { indexes, processes, requests, seed } = plan;
  const rows: Row[] = [];
  const crews = processes.map((count) => new Crew(count));
  console.log(`Percent of ${requests} requests that hit, with room for a tenth of ${KEYS} keys`);
  const counts = processes.map((count) => String(count).padStart(7)).join('');
  console.log(
    `trace      index      policy      exact   ${counts}   spread  below  within 1 point`,
  );
  try {
    for (const trace of [zipf, scans, shifting].map((make) => make(KEYS, requests, seed))) {
      for (const index of indexes) {
        for (const eviction of POLICIES) {
          const rates: number[] = [];
          for (const crew of crews) rates.push(await rateOf(trace, index, eviction, crew));
          const exact = hitRateOf(trace, exactOf(eviction, KEYS * ROOM, seed));
          const row = rowOf({ trace: trace.name, index, eviction, exact, rates });
          rows.push(row);
          console.log(lineOf(row));
        }
      }
    }
  } finally {
    for (const crew of crews) crew.end();
  }
  return rows;
}

async function rateOf(
  { requests }: Trace,
  index: IndexName,
  eviction: Eviction,
  crew: Crew,
): Promise<number> {
  const options = { size: POOL_BYTES, maxRecords: KEYS * ROOM, eviction };
  const first = Math.floor(WARM_UP * requests.length);
  return await withStoreOf(crew, index, options, async ({ url }) => {
    openSync(url, { index: 'race', store: COUNTER }).close();
    const done = await crew.all(() => ({ kind: 'request', url, keys: requests, first }));
    await crew.all(() => ({ kind: 'close' }));
    const hits = done.reduce((sum, one) => sum + one.hits, 0);
    return (100 * hits) / (requests.length - first);
  });
}

function rowOf(measured: Omit<Row, 'spread' | 'below'>): Row {
  const { exact, rates } = measured;
  const lowest = Math.min(...rates);
  return {
    ...measured,
    spread: Math.max(...rates) - lowest,
    below: Math.max(0, exact - lowest),
  };
}

function lineOf({ trace, index, eviction, exact, rates, spread, below }: Row): string {
  const left = trace.padEnd(11) + index.padEnd(11) + eviction.padEnd(10);
  const shown = rates.map((rate) => rate.toFixed(1).padStart(7)).join('');
  const differences = spread.toFixed(1).padStart(9) + below.toFixed(1).padStart(7);
  const isWithin = Math.max(spread, below) <= POINTS;
  return `${left}${exact.toFixed(1).padStart(7)}   ${shown}${differences}  ${isWithin ? 'yes' : 'NO'}`;
}
