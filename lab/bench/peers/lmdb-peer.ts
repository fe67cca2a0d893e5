import { open, type RootDatabase } from 'lmdb';
import type { PeerSettings } from '../protocol.ts';
import type { SyncPeer } from './peer.ts';

/**
 * Runs lmdb with its defaults: no compression, and noSync only when asked for. On tmpfs a sync
 * writes nothing, but its calls took a tenth of a putSync when this was written. The map has its
 * final size, so no growth is timed. putSync is one transaction per call.
 */
class LmdbPeer implements SyncPeer {
  readonly kind = 'sync';
  readonly #db: RootDatabase<Buffer, string>;

  constructor(db: RootDatabase<Buffer, string>) {
    this.#db = db;
  }

  get(key: string): Uint8Array | undefined {
    return this.#db.get(key);
  }

  set(key: string, value: Buffer): void {
    this.#db.putSync(key, value);
  }

  /** One transaction for all: what its users do for bulk. */
  setMany(entries: Iterable<readonly [Uint8Array, Uint8Array]>): void {
    this.#db.transactionSync(() => {
      for (const [key, value] of entries) {
        // Keys are strings here as everywhere else; it copies both.
        this.#db.putSync(Buffer.from(key).toString('latin1'), Buffer.from(value));
      }
    });
  }

  scan(key: string, count: number, use: (value: Uint8Array) => void): void {
    for (const { value } of this.#db.getRange({ start: key, limit: count })) use(value);
  }

  close(): Promise<void> {
    return this.#db.close();
  }
}

export function openLmdbPeer(settings: PeerSettings): SyncPeer {
  const db = open<Buffer, string>({
    path: settings.place,
    encoding: 'binary',
    mapSize: settings.capacity,
    noSync: settings.noSync,
  });
  return new LmdbPeer(db);
}
