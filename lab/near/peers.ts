import { open as openLmdb } from 'lmdb';
import { LRUCache } from 'lru-cache';
import { createClient } from 'redis';
import type { IndexName, OpenOptions, Store } from '../../src/store/api.ts';
import { openSync } from '../../src/store/open.ts';
import { contentOf, keysOf, type PeerName, type Place } from './plan.ts';

/** A peer in the reading process. Synchronous peers return values, others promises. */
export interface Reader {
  get(key: string): unknown;
  close(): unknown;
}

/** A peer in the process that fills it and changes its keys. */
export interface Writer {
  set(key: string, value: unknown): unknown;
  close(): unknown;
}

/** Several times what the records need, so that no peer evicts or grows. */
const CAPACITY = 512 * 2 ** 20;

export async function openReader(peer: PeerName, place: Place): Promise<Reader> {
  if (peer === 'lru-cache') return privateCache(place);
  if (peer === 'stepwell') return stepwell(place);
  if (peer === 'stepwell near') return stepwell(place, place.keys);
  if (peer === 'redis near') return await redis(place);
  return lmdb(place, cacheOf(peer));
}

/** Undefined for a cache that no other process can write to. */
export async function openWriter(peer: PeerName, place: Place): Promise<Writer | undefined> {
  if (peer === 'lru-cache') return undefined;
  if (peer === 'redis near') return await redisWriter(place);
  if (peer.startsWith('lmdb')) return lmdbWriter(place);
  const store = openStore(place);
  return { set: (key, value) => store.set(key, value), close: () => store.close() };
}

/** A cache of this process alone, which keeps references to objects. */
function privateCache({ keys, values }: Place): Reader {
  const cache = new LRUCache<string, object | string>({ max: keys });
  keysOf(keys).forEach((key, id) => {
    cache.set(key, contentOf(values, id, 1));
  });
  return { get: (key) => cache.get(key), close() {} };
}

export function openStore(
  { url, index, values }: Pick<Place, 'url' | 'index' | 'values'>,
  more: Partial<OpenOptions> = {},
): Store<unknown> {
  const common = { store: 'near', index: index as IndexName, size: CAPACITY };
  const options: OpenOptions = { ...common, ...more };
  if (values === 'json') return openSync<unknown>(url, { ...options, values });
  return openSync(url, options);
}

function stepwell(place: Place, nearCache = 0): Reader {
  const store = openStore(place, nearCache > 0 ? { nearCache } : {});
  return { get: (key) => store.get(key), close: () => store.close() };
}

/**
 * lmdb's `cache: true` answers from this process alone. Only with `validated` does it look into the
 * database, as a near read does.
 */
function cacheOf(peer: PeerName): boolean | { validated: true } {
  return peer === 'lmdb validated' ? { validated: true } : peer === 'lmdb cache';
}

function openDatabase({ lmdb: path, values }: Place, cache: boolean | { validated: true }) {
  const encoding = values === 'json' ? 'json' : 'string';
  return openLmdb<unknown, string>({ path, encoding, mapSize: CAPACITY, noSync: true, cache });
}

function lmdb(place: Place, cache: boolean | { validated: true }): Reader {
  const database = openDatabase(place, cache);
  return { get: (key) => database.get(key), close: () => database.close() };
}

function lmdbWriter(place: Place): Writer {
  const database = openDatabase(place, false);
  return {
    set: (key, value) => database.putSync(key, value),
    close: () => database.close(),
  };
}

/** node-redis with its client-side cache. It keeps replies, so each read parses its document. */
async function redis({ redisPort, values, keys }: Place): Promise<Reader> {
  const client = await createClient({
    RESP: 3,
    socket: { host: '127.0.0.1', port: redisPort },
    clientSideCache: { ttl: 0, maxEntries: keys, evictPolicy: 'LRU' },
  }).connect();
  const get =
    values === 'json'
      ? async (key: string) => JSON.parse(String(await client.get(key)))
      : (key: string) => client.get(key);
  return { get, close: () => client.close() };
}

async function redisWriter({ redisPort, values }: Place): Promise<Writer> {
  const socket = { host: '127.0.0.1', port: redisPort };
  const client = await createClient({ socket }).connect();
  const text = (value: unknown) => (values === 'json' ? JSON.stringify(value) : String(value));
  return { set: (key, value) => client.set(key, text(value)), close: () => client.close() };
}
