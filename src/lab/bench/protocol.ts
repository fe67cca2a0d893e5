import type { DistributionName } from '../../workloads/index.ts';

export const PEERS = ['map', 'lmdb', 'redis', 'stepwell'] as const;
export type PeerName = (typeof PEERS)[number];

/** What one worker process benchmarks, and where it finds it. */
export interface PeerSettings {
  peer: PeerName;
  records: number;
  /** The store's place: a directory, a port or a pool URL, by peer; unused by Map. */
  place: string;
  /** Bytes that the store may grow to, where the peer wants to know. */
  capacity: number;
  /** Leaves lmdb's syncs out, where its default keeps them. */
  noSync: boolean;
  /** Whether the keys of all records are kept as strings, or made anew for each task. */
  keepKeys: boolean;
}

export type Operation = 'insert' | 'get' | 'put' | 'getMany' | 'pipeline';

/** One timed run of operations. Equal tasks give every peer the same keys in the same order. */
export interface Task {
  operation: Operation;
  distribution: DistributionName;
  /** Whether each key is a new string, equal to the stored one but not the same object. */
  freshKeys: boolean;
  /** The first record, for `insert`. */
  from: number;
  operations: number;
  seed: number;
}

/** Begin and end on the machine's monotonic clock. */
export interface Timing {
  begin: bigint;
  end: bigint;
  operations: number;
}

export type Order =
  | { kind: 'open'; settings: PeerSettings }
  | { kind: 'prepare'; task: Task }
  | { kind: 'run'; at: bigint }
  | { kind: 'load' }
  | { kind: 'verify'; count: number; seed: number }
  | { kind: 'describe' }
  | { kind: 'close' };

export type Answer =
  | { ok: true; timing?: Timing; description?: Record<string, unknown> }
  | { ok: false; message: string };
