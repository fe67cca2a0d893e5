import type { OpenOptions, Store } from '../../src/store/api.ts';
import { openSync } from '../../src/store/open.ts';

/** The stores of the day, each used as an application would use it. */
const STORES = {
  sessions: { index: 'race', ttlMs: 4000, sliding: true },
  cache: { index: 'shard', maxRecords: 4000, eviction: 'lru' },
  pages: { index: 'sephash', maxBytes: 2 ** 21, eviction: 'adaptive' },
  events: { index: 'chime' },
  table: { index: 'hopscotch' },
  profiles: { index: 'hstore' },
} as const satisfies Record<string, OpenOptions>;

type StoreName = keyof typeof STORES;
const STORE_NAMES = Object.keys(STORES) as StoreName[];
export type DayStores = Record<StoreName, Store<string>>;

export function openStores(url: string, client: string): DayStores {
  const open = (name: StoreName) =>
    openSync(url, { ...STORES[name], store: name, values: 'utf8', client });
  return Object.fromEntries(STORE_NAMES.map((name) => [name, open(name)])) as unknown as DayStores;
}

/** A value that names its key. */
export function valueFor(key: string, bytes: number): string {
  return `${key}|`.padEnd(bytes, 'x');
}

/** Throws if the value belongs to another key. */
export function checkValue(key: string, value: string | undefined): void {
  if (value === undefined || value.startsWith(`${key}|`)) return;
  throw new Error(`key ${key} holds ${value.slice(0, 40)}`);
}
