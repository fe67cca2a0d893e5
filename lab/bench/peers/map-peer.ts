import type { SyncPeer } from './peer.ts';

/** The lower bound: one thread's own hash table, which holds references instead of bytes. */
class MapPeer implements SyncPeer {
  readonly kind = 'sync';
  readonly #map = new Map<string, Buffer>();

  get(key: string): Uint8Array | undefined {
    return this.#map.get(key);
  }

  set(key: string, value: Buffer): void {
    this.#map.set(key, value);
  }

  close(): void {
    this.#map.clear();
  }
}

export function openMapPeer(): SyncPeer {
  return new MapPeer();
}
