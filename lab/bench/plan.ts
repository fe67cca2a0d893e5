import { INDEX_KINDS } from '../../src/indexes/kinds.ts';
import type { DistributionName } from '../workloads/index.ts';
import {
  type Operation,
  type PeerName,
  peerOf,
  SCAN_RECORDS,
  STEPWELL_PEERS,
  type Task,
} from './protocol.ts';

export interface Workload {
  /** The name of its row, to which the wanted ratios refer. */
  name: string;
  operation: Operation;
  distribution: DistributionName;
  freshKeys: boolean;
  processes: number;
  peers: readonly PeerName[];
  /** Operations of each process in a round, as a share of `--operations`. */
  share: number;
}

const SHARED: readonly PeerName[] = ['lmdb', ...STEPWELL_PEERS];
const SYNC: readonly PeerName[] = ['map', ...SHARED];
/** Peers that keep their keys in order. */
export const ORDERED: readonly PeerName[] = [
  'lmdb',
  'level',
  ...INDEX_KINDS.filter(({ manifest }) => manifest.orderedWalk).map(peerOf),
];

function workload(name: string, operation: Operation, rest: Partial<Workload>): Workload {
  const usual = { distribution: 'uniform', freshKeys: false, processes: 1, share: 1 } as const;
  return { ...usual, peers: SYNC, ...rest, name, operation };
}

/** The workloads of every round, in this order; each runs its peers one after another. */
export function mainWorkloads(): Workload[] {
  const zipf = { distribution: 'zipf' } as const;
  const two = { processes: 2, peers: SHARED } as const;
  // In lmdb a write takes ten times as long as a get; fewer writes keep rounds short.
  const fewer = { share: 0.4 } as const;
  return [
    workload('get uniform', 'get', { peers: [...SYNC, 'level'] }),
    workload('get zipf', 'get', zipf),
    workload('get uniform, new strings', 'get', { freshKeys: true }),
    workload('set uniform', 'set', { ...fewer, peers: [...SYNC, 'level'] }),
    workload('set zipf', 'set', { ...fewer, ...zipf }),
    workload('get uniform, 2 processes', 'get', two),
    workload('get zipf, 2 processes', 'get', { ...two, ...zipf }),
    workload('set uniform, 2 processes', 'set', { ...fewer, ...two }),
    workload('set zipf, 2 processes', 'set', { ...fewer, ...two, ...zipf }),
    workload('getMany(32) uniform', 'getMany', { peers: STEPWELL_PEERS }),
    workload(SCAN, 'scan', { peers: ORDERED, share: 0.02 }),
    workload('round trip uniform', 'get', { peers: ['redis'], share: 0.02 }),
    workload('pipeline(100) uniform', 'pipeline', { peers: ['redis'], share: 0.2 }),
  ];
}

export const LOAD = 'insert (load)';
export const SCAN = `scan(${SCAN_RECORDS}) uniform`;
export const LARGE_LOAD = 'large: setMany(1024) load';
export const LARGE_GET = 'large: get uniform';
export const LARGE_GET_MANY = 'large: getMany(32) uniform';
export const LARGE_INSERT = 'large: insert';
export const LARGE_SCAN = `large: ${SCAN}`;

/** Stepwell, and CHIME beside lmdb. */
export const LARGE_PEERS: readonly PeerName[] = ['lmdb', 'stepwell', 'chime'];

export function largeWorkloads(): Workload[] {
  const all = { peers: LARGE_PEERS } as const;
  return [
    workload(LARGE_GET, 'get', all),
    workload(LARGE_GET_MANY, 'getMany', { peers: ['stepwell', 'chime'] }),
    workload(LARGE_SCAN, 'scan', { peers: ['lmdb', 'chime'], share: 0.02 }),
    workload(LARGE_INSERT, 'insert', { ...all, share: 0.4 }),
  ];
}

/**
 * The tasks of one round, one per process. All peers get the same tasks. Rounds, workloads and
 * processes have different seeds, so that no run finds caches that the same keys have warmed.
 */
export function tasksOf(
  workload: Workload,
  place: number,
  round: number,
  { operations, seed, records }: { operations: number; seed: number; records: number },
): Task[] {
  const count = Math.max(1, Math.round(operations * workload.share));
  const { operation, distribution, freshKeys } = workload;
  // New records come after the loaded ones, and each round inserts records of its own.
  const from = operation === 'insert' ? records + round * count : 0;
  return Array.from({ length: workload.processes }, (_, process) => ({
    operation,
    distribution,
    freshKeys,
    from,
    operations: count,
    seed: seed + 1_000_000 * round + 1000 * place + process + 1,
  }));
}

/** The insertion of all records, split into one part per round. */
export function loadTasks(records: number, parts: number): Task[] {
  return Array.from({ length: parts }, (_, part) => {
    const from = Math.floor((records * part) / parts);
    const operations = Math.floor((records * (part + 1)) / parts) - from;
    const shape = { operation: 'insert', distribution: 'uniform', freshKeys: false } as const;
    return { ...shape, from, operations, seed: 0 };
  });
}
