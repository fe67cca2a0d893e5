import { ClassicLevel } from 'classic-level';
import type { PeerSettings } from '../protocol.ts';
import type { AsyncPeer } from './peer.ts';

/** LevelDB with its defaults; files are where lmdb's are. Uses the synchronous get. */
class LevelPeer implements AsyncPeer {
  readonly kind = 'async';
  readonly #db: ClassicLevel<string, Buffer>;

  constructor(db: ClassicLevel<string, Buffer>) {
    this.#db = db;
  }

  async get(key: string): Promise<Uint8Array | null> {
    return this.#db.getSync(key) ?? null;
  }

  set(key: string, value: Buffer): Promise<void> {
    return this.#db.put(key, value);
  }

  async scan(key: string, count: number, use: (value: Uint8Array) => void): Promise<void> {
    const entries = await this.#db.iterator({ gte: key, limit: count }).all();
    for (const [, value] of entries) use(value);
  }

  close(): Promise<void> {
    return this.#db.close();
  }
}

export async function openLevelPeer({ place }: PeerSettings): Promise<AsyncPeer> {
  const db = new ClassicLevel<string, Buffer>(place, { valueEncoding: 'buffer' });
  await db.open();
  return new LevelPeer(db);
}
