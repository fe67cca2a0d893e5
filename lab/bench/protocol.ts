import type { IndexKind } from '../../src/indexes/contract.ts';
import { INDEX_KINDS } from '../../src/indexes/kinds.ts';
import type { DistributionName } from '../workloads/index.ts';

/** Stepwell with each index; `stepwell` is the default, RACE. */
export const STEPWELL_PEERS = INDEX_KINDS.map(peerOf);
/** `level` is classic-level, LevelDB for Node: one process at a time. */
const OTHERS = ['map', 'lmdb', 'level', 'redis'] as const;
export type OtherPeer = (typeof OTHERS)[number];
export type PeerName = string;
export const PEERS: readonly PeerName[] = [...OTHERS, ...STEPWELL_PEERS];

export function peerOf({ manifest }: IndexKind): PeerName {
  return manifest.name === 'race' ? 'stepwell' : manifest.name;
}

/** The index of a Stepwell peer; undefined for other peers. */
export function indexOf(peer: PeerName): string | undefined {
  return INDEX_KINDS.find((kind) => peerOf(kind) === peer)?.manifest.name;
}

/** The peer that a worker process benchmarks, and where its store is. */
export interface PeerSettings {
  peer: PeerName;
  records: number;
  /** Where the store is, by peer: a directory, a port or a pool URL; unused by Map. */
  place: string;
  /** The most bytes that the store may need, for peers that must know. */
  capacity: number;
  /** Runs lmdb with noSync, which is not its default. */
  noSync: boolean;
  /** Keeps the keys of all records as strings, instead of making them again for each task. */
  keepKeys: boolean;
}

/** `scan` reads SCAN_RECORDS records in order, starting at the key. */
export type Operation = 'insert' | 'get' | 'set' | 'getMany' | 'pipeline' | 'scan';

export const SCAN_RECORDS = 100;

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
