import KeyvRedis from '@keyv/redis';
import Keyv from 'keyv';
import { LRUCache } from 'lru-cache';
import { StepwellKeyv } from '../../src/adapters/keyv/index.ts';
import { getOrSet } from '../../src/helpers/index.ts';
import { openSync } from '../../src/store/open.ts';
import type { Cleanup } from '../support/cleanup.ts';
import type { Article, CachePeer, GetOrLoad } from './peer.ts';

const TTL_MS = 3_600_000;
const ROUND_TRIPS = 10;

/** All peers get the same keys and values, which expire after an hour. */
export function cachePeers(url: string, redis: string, cleanup: Cleanup): CachePeer[] {
  return [
    stepwell(url, cleanup),
    stepwellKeyv(url, cleanup),
    lruCache(),
    keyvRedis(redis, cleanup),
  ];
}

function stepwell(url: string, cleanup: Cleanup): CachePeer {
  const store = openSync<Article>(url, { store: 'plain', values: 'json', ttlMs: TTL_MS });
  cleanup.add(() => store.close());
  const worker: GetOrLoad = (key, load) => getOrSet(store, key, load);
  return {
    name: 'stepwell',
    slower: 1,
    get: (key) => store.get(key),
    set: (key, value) => store.set(key, value),
    workers: [worker, worker],
  };
}

function stepwellKeyv(url: string, cleanup: Cleanup): CachePeer {
  const store = openSync(url, { store: 'keyv' });
  cleanup.add(() => store.close());
  return ofKeyv('keyv + stepwell', 1, () => new Keyv({ store: new StepwellKeyv(store) }));
}

function keyvRedis(redis: string, cleanup: Cleanup): CachePeer {
  const opened = () => {
    const keyv = new Keyv({ store: new KeyvRedis(redis) });
    cleanup.add(() => keyv.disconnect());
    return keyv;
  };
  return ofKeyv('keyv + redis', ROUND_TRIPS, opened);
}

/** Keyv has no single flight: every caller that misses loads the value. */
function ofKeyv(name: string, slower: number, opened: () => Keyv): CachePeer {
  const [one, two] = [opened(), opened()];
  const worker =
    (keyv: Keyv): GetOrLoad =>
    async (key, load) => {
      const found = await keyv.get(key);
      if (found !== undefined) return found;
      const value = await load();
      await keyv.set(key, value, TTL_MS);
      return value;
    };
  return {
    name,
    slower,
    get: (key) => one.get(key),
    set: (key, value) => one.set(key, value, TTL_MS),
    workers: [worker(one), worker(two)],
  };
}

/** A cache of this process alone, which keeps references to objects and copies nothing. */
function lruCache(): CachePeer {
  type Load = () => Promise<Article>;
  const opened = () =>
    new LRUCache<string, Article, Load>({
      max: 100_000,
      ttl: TTL_MS,
      fetchMethod: (_key, _stale, { context }) => context(),
    });
  const [one, two] = [opened(), opened()];
  return {
    name: 'lru-cache',
    slower: 1,
    get: (key) => one.get(key),
    set: (key, value) => one.set(key, value),
    workers: [
      (key, load) => one.fetch(key, { context: load }),
      (key, load) => two.fetch(key, { context: load }),
    ],
  };
}
