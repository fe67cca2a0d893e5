import { open, type RootDatabase } from 'lmdb';
import type { PeerSettings } from '../protocol.ts';
import type { SyncPeer } from './peer.ts';

/**
 * Runs lmdb with its defaults: no compression, and noSync only on request. On tmpfs a sync writes
 * nothing, but the sync system calls took about a tenth of putSync's time when this was written.
 * The map has its final size from the start, so no growth is timed. Each putSync is a transaction.
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

  /** One transaction for all entries, as lmdb users load in bulk. */
  setMany(entries: Iterable<readonly [Uint8Array, Uint8Array]>): void {
    this.#db.transactionSync(() => {
      for (const [key, value] of entries) {
        // As in `set`, keys are strings. lmdb copies key and value.
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
