/** A program of the workbench; it reads the words behind its name. */
interface Program {
  about: string;
  load(): Promise<{ main(words: string[]): Promise<void> }>;
}

/** In the order of the help. main.ts adds `verify`. */
export const PROGRAMS: Readonly<Record<string, Program>> = {
  conformance: {
    about: 'What every store must do, whatever its index',
    load: () => import('./conformance.ts'),
  },
  torture: {
    about: 'Processes that share a pool and are killed and stopped meanwhile',
    load: () => import('./torture/run.ts'),
  },
  'torture-network': {
    about: 'The same over the network, in namespaces of its own',
    load: () => import('./torture/network/run.ts'),
  },
  soak: {
    about: 'A day in the life of a pool: processes come and go, records expire, stores evict',
    load: () => import('./soak/run.ts'),
  },
  bench: {
    about: 'Stores on this machine beside Map, lmdb and Redis',
    load: () => import('./bench/run.ts'),
  },
  'bench-tcp': {
    about: 'Stores over the network beside Redis and a bare echo',
    load: () => import('./tcp/run.ts'),
  },
  'bench-ucx': {
    about: 'Verbs over UCX beside ucx_perftest, and a soak',
    load: () => import('./tcp/ucx.ts'),
  },
  'bench-apps': {
    about: 'Caches and limiters of applications: lru-cache, Keyv and Redis, rate-limiter-flexible',
    load: () => import('./apps/run.ts'),
  },
  'near-reads': {
    about: 'Reads with a near cache beside lru-cache, lmdb and Redis, and how many are stale',
    load: () => import('./near/run.ts'),
  },
  'near-network': {
    about: 'Reads with a near cache over TCP and UCX: time, round trips and bytes',
    load: () => import('./near/network.ts'),
  },
  'full-pool': {
    about: 'A full pool that processes share: evictions, sizes, stalls and hit rates',
    load: () => import('./full-pool/run.ts'),
  },
  'bench-gateway': {
    about: 'redis-benchmark against gateways of a mapped pool and a memory node, and redis-server',
    load: () => import('./gateway/run.ts'),
  },
  simulate: {
    about: 'The papers’ experiments on a simulated RDMA network',
    load: () => import('./simulation/run.ts'),
  },
  'chime-claims': {
    about: 'CHIME: round trips, load factors, memory and hotspots',
    load: () => import('./chime/run.ts'),
  },
  'stopped-holder': {
    about: 'CHIME: who waits while a process is stopped at each verb of a write',
    load: () => import('./chime/stopped-holder.ts'),
  },
  'round-trips': {
    about: 'Round trips of every call of every index',
    load: () => import('./experiments/round-trips.ts'),
  },
  'growing-round-trips': {
    about: 'Round trips while an index grows',
    load: () => import('./experiments/growing-round-trips.ts'),
  },
  'load-factor': {
    about: 'RACE: how full a subtable is when an insertion fails',
    load: () => import('./experiments/load-factor.ts'),
  },
  'load-100m': {
    about: 'RACE: many records beside the published figures',
    load: () => import('./experiments/load-100m.ts'),
  },
  'sephash-growth': {
    about: 'SepHash: what merges and splits cost while it grows',
    load: () => import('./experiments/sephash-growth.ts'),
  },
  space: {
    about: 'Memory of each index while records come',
    load: () => import('./experiments/space.ts'),
  },
  utilisation: {
    about: 'SHARD: how full its slots are',
    load: () => import('./experiments/utilisation.ts'),
  },
  'resize-share': {
    about: 'Share of an insertion’s time that growing takes',
    load: () => import('./experiments/resize-share.ts'),
  },
  'hstore-recovery': {
    about: 'HStore: how soon a lost table or skiplist is back',
    load: () => import('./experiments/hstore-recovery.ts'),
  },
  'ordered-costs': {
    about: 'Processor time of a call of ordered stores',
    load: () => import('./experiments/ordered-costs.ts'),
  },
  'compare-builds': {
    about: 'Processor time and garbage of calls, two builds by turns',
    load: () => import('./experiments/compare-builds.ts'),
  },
  'call-paths': {
    about: 'Files and functions of the product that one call passes through',
    load: () => import('./experiments/call-paths.ts'),
  },
  refill: {
    about: 'Capacity of a pool that is filled and emptied, with kills',
    load: () => import('./experiments/refill.ts'),
  },
  'hit-rates': {
    about: 'Hit rates of bounded stores beside exact LRU and LFU',
    load: () => import('./hit-rates/run.ts'),
  },
  'write-pages': {
    about: 'Measures anew what pages of docs/measurements say',
    load: () => import('./pages/run.ts'),
  },
};
