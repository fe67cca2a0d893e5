import { isStepwell, type PeerName, type PeerSettings, type StepwellPeerName } from './protocol.ts';

/** A store that answers before the call returns: Map, lmdb, Stepwell. */
export interface SyncPeer {
  readonly kind: 'sync';
  get(key: string): Uint8Array | undefined;
  put(key: string, value: Buffer): void;
  getMany?(keys: readonly string[]): (Uint8Array | undefined)[];
  /** Loads records faster than one by one, if there is such a way; the arrays are reused. */
  putMany?(entries: Iterable<readonly [Uint8Array, Uint8Array]>): void;
  /** Hands `use` the value of each of the `count` records from `key` on; ordered stores only. */
  scan?(key: string, count: number, use: (value: Uint8Array) => void): void;
  /** Facts for the report. */
  describe?(): Record<string, unknown>;
  close(): void | Promise<void>;
}

/** A store that answers by promise: Redis behind its connection, classic-level in its threads. */
export interface AsyncPeer {
  readonly kind: 'async';
  get(key: string): Promise<Uint8Array | null>;
  put(key: string, value: Buffer): Promise<unknown>;
  scan?(key: string, count: number, use: (value: Uint8Array) => void): Promise<void>;
  describe?(): Record<string, unknown>;
  close(): void | Promise<void>;
}

export type Peer = SyncPeer | AsyncPeer;

/** Peers are imported when asked for: one that is missing must not stop the others. */
export async function openPeer(settings: PeerSettings): Promise<Peer> {
  const { peer } = settings;
  if (isStepwell(peer))
    return (await import('./stepwell-peer.ts')).openStepwellPeer(settings, peer);
  const openers: Record<Exclude<PeerName, StepwellPeerName>, () => Promise<Peer>> = {
    map: async () => (await import('./map-peer.ts')).openMapPeer(),
    lmdb: async () => (await import('./lmdb-peer.ts')).openLmdbPeer(settings),
    level: async () => (await import('./level-peer.ts')).openLevelPeer(settings),
    redis: async () => (await import('./redis-peer.ts')).openRedisPeer(settings),
  };
  return openers[peer]();
}
