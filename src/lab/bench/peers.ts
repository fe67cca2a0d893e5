import type { PeerName, PeerSettings } from './protocol.ts';

/** A store that answers before the call returns: Map, lmdb, Stepwell. */
export interface SyncPeer {
  readonly kind: 'sync';
  get(key: string): Uint8Array | undefined;
  put(key: string, value: Buffer): void;
  getMany?(keys: readonly string[]): (Uint8Array | undefined)[];
  /** Loads records faster than one by one, if there is such a way; the arrays are reused. */
  putMany?(entries: Iterable<readonly [Uint8Array, Uint8Array]>): void;
  /** Facts for the report. */
  describe?(): Record<string, unknown>;
  close(): void | Promise<void>;
}

/** A store behind a network connection: Redis. */
export interface AsyncPeer {
  readonly kind: 'async';
  get(key: string): Promise<Uint8Array | null>;
  put(key: string, value: Buffer): Promise<unknown>;
  describe?(): Record<string, unknown>;
  close(): void | Promise<void>;
}

export type Peer = SyncPeer | AsyncPeer;

/** Peers are imported when asked for: one that is missing must not stop the others. */
export async function openPeer(settings: PeerSettings): Promise<Peer> {
  const openers: Record<PeerName, () => Promise<Peer>> = {
    map: async () => (await import('./map-peer.ts')).openMapPeer(),
    lmdb: async () => (await import('./lmdb-peer.ts')).openLmdbPeer(settings),
    redis: async () => (await import('./redis-peer.ts')).openRedisPeer(settings),
    stepwell: async () => (await import('./stepwell-peer.ts')).openStepwellPeer(settings),
  };
  return openers[settings.peer]();
}
