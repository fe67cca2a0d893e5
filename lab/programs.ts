/** A program of the workbench. `main` gets the words after the program's name. */
interface Program {
  about: string;
  load(): Promise<{ main(words: string[]): Promise<void> }>;
}

/** In the order in which `--help` lists them. main.ts adds `verify`. */
export const PROGRAMS: Readonly<Record<string, Program>> = {
  conformance: {
    about: 'The conformance suite that every index must pass',
    load: () => import('./conformance.ts'),
  },
  torture: {
    about: 'Processes share a pool while they are killed and stopped',
    load: () => import('./torture/run.ts'),
  },
  'torture-network': {
    about: 'The same over a network, between network namespaces',
    load: () => import('./torture/network/run.ts'),
  },
  'torture-jobs': {
    about: 'Processes add and complete jobs of a queue while they are killed',
    load: () => import('./torture/jobs/run.ts'),
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
  'bench-jobs': {
    about: 'A job queue beside BullMQ on redis-server: jobs per second, and latency',
    load: () => import('./apps/jobs/run.ts'),
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
    about: 'RACE: 100 million records beside the published figures',
    load: () => import('./experiments/load-100m.ts'),
  },
  'sephash-growth': {
    about: 'SepHash: what merges and splits cost while it grows',
    load: () => import('./experiments/sephash-growth.ts'),
  },
  space: {
    about: 'Memory of each index as it grows',
    load: () => import('./experiments/space.ts'),
  },
  utilisation: {
    about: 'SepHash and RACE: share of entries and bytes in use, as records are inserted',
    load: () => import('./experiments/utilisation.ts'),
  },
  'resize-share': {
    about: 'RACE: share of insertion time that goes into splits',
    load: () => import('./experiments/resize-share.ts'),
  },
  'hstore-recovery': {
    about: 'HStore: how long it takes to recover a lost table or skiplist',
    load: () => import('./experiments/hstore-recovery.ts'),
  },
  'ordered-costs': {
    about: 'Processor time per call of ordered stores',
    load: () => import('./experiments/ordered-costs.ts'),
  },
  'compare-builds': {
    about: 'Processor time and garbage per call: two builds, alternating',
    load: () => import('./experiments/compare-builds.ts'),
  },
  'call-paths': {
    about: 'How many files and functions of the product a call passes through',
    load: () => import('./experiments/call-paths.ts'),
  },
  refill: {
    about: 'Whether a pool keeps its capacity when it is filled and emptied, with kills',
    load: () => import('./experiments/refill.ts'),
  },
  'hit-rates': {
    about: 'Hit rates of bounded stores beside exact LRU and LFU',
    load: () => import('./hit-rates/run.ts'),
  },
  'write-pages': {
    about: 'Repeats the measurements of pages in docs/measurements',
    load: () => import('./pages/run.ts'),
  },
};
