import {
  isStepwell,
  type PeerName,
  type PeerSettings,
  type StepwellPeerName,
} from '../protocol.ts';
import type { Peer } from './peer.ts';

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
