import { Redis } from 'ioredis';
import { RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible';
import { StepwellRateLimit } from '../../src/adapters/express-rate-limit/index.ts';
import { fixedWindow } from '../../src/helpers/index.ts';
import { openSync } from '../../src/store/open.ts';
import type { Cleanup } from '../support/cleanup.ts';
import type { LimiterPeer } from './peer.ts';

const LIMIT = 2 ** 40;
const WINDOW_MS = 3_600_000;
const ROUND_TRIPS = 10;

/** Limiters with windows of an hour and a limit that is never reached. */
export function limiterPeers(url: string, redis: string, cleanup: Cleanup): LimiterPeer[] {
  const store = openSync(url, { store: 'limits' });
  cleanup.add(() => store.close());
  const client = new Redis(redis);
  cleanup.add(() => client.disconnect());
  const shared = new StepwellRateLimit(store);
  shared.init({ windowMs: WINDOW_MS } as Parameters<StepwellRateLimit['init']>[0]);
  const window = fixedWindow(store, { limit: LIMIT, windowMs: WINDOW_MS });
  const options = { points: LIMIT, duration: WINDOW_MS / 1000 };
  const memory = new RateLimiterMemory(options);
  const overRedis = new RateLimiterRedis({ ...options, storeClient: client });
  return [
    { name: 'stepwell', slower: 1, take: (key) => window.takeSync(key) },
    {
      name: 'stepwell/express-rate-limit',
      slower: 1,
      take: (key) => shared.increment(key),
    },
    { name: 'rate-limiter-flexible, memory', slower: 1, take: (key) => memory.consume(key) },
    {
      name: 'rate-limiter-flexible, redis',
      slower: ROUND_TRIPS,
      take: (key) => overRedis.consume(key),
    },
  ];
}
