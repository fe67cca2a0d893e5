/**
 * Hit rates of bounded stores, beside caches with exact LRU and LFU orders, and beside the package
 * lru-cache. All get the same requests, and insert a key that misses. The first fifth of the
 * requests does not count.
 */
import { writeFileSync } from 'node:fs';
import { Prng } from '../../src/random/prng.ts';
import type { Eviction, IndexName } from '../../src/store/api.ts';
import { openAloneSync, openSync } from '../../src/store/open.ts';
import { describeMachine } from '../support/machine.ts';
import { parseOptions } from '../support/options.ts';
import { exactOf, hitRateOf, LruPackage } from './exact.ts';
import { scans, shifting, type Trace, zipf } from './traces.ts';

const SPEC = {
  index: {
    kind: 'text',
    fallback: 'race',
    help: 'a kind of index; or several, with commas',
  },
  keys: { kind: 'integer', fallback: 10_000, minimum: 100, help: 'of each trace' },
  requests: { kind: 'integer', fallback: 300_000, minimum: 1000, help: 'of each trace' },
  shares: { kind: 'text', fallback: '1,10,50', help: 'room, in percent of the keys' },
  clients: {
    kind: 'integer',
    fallback: 1,
    minimum: 1,
    help: 'clients that take turns with the requests',
  },
  near: {
    kind: 'integer',
    fallback: 0,
    minimum: 0,
    help: 'entries of a near cache, for a second run of each store; 0 for none',
  },
  seed: { kind: 'integer', fallback: 1, help: 'of traces and samples' },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
} as const;

const VALUE = 'v'.repeat(32);
const POOL_BYTES = 256 * 2 ** 20;

export type Settings = Pick<
  ReturnType<typeof parseOptions<typeof SPEC>>,
  'keys' | 'requests' | 'clients' | 'near' | 'seed'
>;

/** Hit rates of one trace with room for a share of its keys, in percent. */
export interface Row {
  trace: string;
  /** Percent of the keys that there is room for. */
  room: number;
  exactLru: number;
  exactLfu: number;
  exactAdaptive: number;
  lruPackage: number;
  stores: { index: string; lru: number; lfu: number; adaptive: number }[];
}

export function tracesOf({ keys, requests, seed }: Settings): Trace[] {
  return [zipf, scans, shifting].map((make) => make(keys, requests, seed));
}

export function measure(trace: Trace, room: number, indexes: string[], settings: Settings): Row {
  const capacity = Math.max(1, Math.round((room / 100) * trace.keys));
  const ratesOf = (index: string, near: number) => {
    const rateOf = (eviction: Eviction) =>
      ofStore(trace, capacity, index, eviction, { ...settings, near });
    const name = near > 0 ? `${index} near` : index;
    return { index: name, lru: rateOf('lru'), lfu: rateOf('lfu'), adaptive: rateOf('adaptive') };
  };
  const caches = settings.near > 0 ? [0, settings.near] : [0];
  const stores = indexes.flatMap((index) => caches.map((near) => ratesOf(index, near)));
  const exact = (eviction: Eviction) =>
    hitRateOf(trace, exactOf(eviction, capacity, settings.seed));
  return {
    trace: trace.name,
    room,
    exactLru: exact('lru'),
    exactLfu: exact('lfu'),
    exactAdaptive: exact('adaptive'),
    lruPackage: hitRateOf(trace, new LruPackage(capacity)),
    stores,
  };
}

function ofStore(
  trace: Trace,
  maxRecords: number,
  index: string,
  eviction: Eviction,
  { seed, clients, near }: Settings,
): number {
  const prng = Prng.fromSeed(seed);
  const time = { now: 1_700_000_000_000 };
  const chances = { chance: () => prng.nextDouble(), clock: () => time.now };
  const own = near > 0 ? { ...chances, nearCache: near } : chances;
  const first = openSync('memory:', {
    size: POOL_BYTES,
    index: index as IndexName,
    maxRecords,
    eviction,
    ...own,
  });
  const stores = [first];
  while (stores.length < clients) stores.push(openAloneSync(first.handle, own));
  let number = 0;
  const request = (key: number) => {
    const store = stores[number++ % stores.length];
    // A hundred requests take a millisecond of this clock.
    if (number % 100 === 0) time.now++;
    if (store.get(String(key)) !== undefined) return true;
    store.set(String(key), VALUE);
    return false;
  };
  try {
    return hitRateOf(trace, { request });
  } finally {
    for (const store of stores) store.close();
  }
}

export async function main(words: string[]): Promise<void> {
  const options = parseOptions('hit-rates', SPEC, words);
  const indexes = options.index.split(',');
  const rows: Row[] = [];
  const exact = 'exact LRU  lru-cache  exact LFU  exact adaptive';
  console.log(`trace      room %   ${exact}   index             lru    lfu  adaptive   below`);
  for (const trace of tracesOf(options)) {
    for (const share of options.shares.split(',').map(Number)) {
      const row = measure(trace, share, indexes, options);
      rows.push(row);
      for (const line of linesOf(row)) console.log(line);
    }
  }
  if (options.json === '') return;
  const whole = { options, machine: describeMachine(), rows };
  writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
}

function linesOf(row: Row): string[] {
  const { trace, room, exactLru, lruPackage, exactLfu, exactAdaptive, stores } = row;
  const shown = (rate: number, width: number) => rate.toFixed(1).padStart(width);
  const exact = shown(exactLru, 12) + shown(lruPackage, 11) + shown(exactLfu, 11);
  const start = trace.padEnd(10) + String(room).padStart(7) + exact + shown(exactAdaptive, 16);
  return stores.map((rates, i) => {
    const { index, lru, lfu, adaptive } = rates;
    const left = i === 0 ? start : ' '.repeat(start.length);
    const policies = shown(lru, 6) + shown(lfu, 7) + shown(adaptive, 10);
    return `${left}   ${index.padEnd(15)}${policies}${shown(belowExact(row, rates), 8)}`;
  });
}

/** The largest gap between a policy's hit rate and that of its exact version. */
function belowExact(
  { exactLru, exactLfu, exactAdaptive }: Row,
  { lru, lfu, adaptive }: Row['stores'][number],
): number {
  return Math.max(0, exactLru - lru, exactLfu - lfu, exactAdaptive - adaptive);
}
