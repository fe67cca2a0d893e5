import { indexOf, type OtherPeer, type PeerSettings } from '../protocol.ts';
import type { Peer } from './peer.ts';

/** Imports a peer only when it is needed, so that a missing package stops no other peer. */
export async function openPeer(settings: PeerSettings): Promise<Peer> {
  const { peer } = settings;
  const index = indexOf(peer);
  if (index) return (await import('./stepwell-peer.ts')).openStepwellPeer(settings, index);
  const openers: Record<OtherPeer, () => Promise<Peer>> = {
    map: async () => (await import('./map-peer.ts')).openMapPeer(),
    lmdb: async () => (await import('./lmdb-peer.ts')).openLmdbPeer(settings),
    level: async () => (await import('./level-peer.ts')).openLevelPeer(settings),
    redis: async () => (await import('./redis-peer.ts')).openRedisPeer(settings),
  };
  return openers[peer as OtherPeer]();
}
