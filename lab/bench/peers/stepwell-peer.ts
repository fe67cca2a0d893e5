import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { IndexName, Store } from '../../../src/store/api.ts';
import type * as library from '../../../src/store/open.ts';
import type { PeerSettings } from '../protocol.ts';
import type { SyncPeer } from './peer.ts';

/** With BENCH_PACKAGE=dist/index.js, the package as it ships is measured: a few bundled files. */
const { BENCH_PACKAGE } = process.env;
const { inspectSync, openSync }: typeof library =
  BENCH_PACKAGE === undefined
    ? await import('../../../src/store/open.ts')
    : await import(pathToFileURL(resolve(BENCH_PACKAGE)).href);

class StepwellPeer implements SyncPeer {
  readonly kind = 'sync';
  readonly #store: Store<Uint8Array>;

  constructor(store: Store<Uint8Array>) {
    this.#store = store;
  }

  get(key: string): Uint8Array | undefined {
    return this.#store.get(key);
  }

  set(key: string, value: Buffer): void {
    this.#store.set(key, value);
  }

  getMany(keys: readonly string[]): (Uint8Array | undefined)[] {
    return this.#store.getMany(keys);
  }

  setMany(entries: Iterable<readonly [Uint8Array, Uint8Array]>): void {
    this.#store.setMany(entries);
  }

  scan(key: string, count: number, use: (value: Uint8Array) => void): void {
    for (const [, value] of this.#store.scan({ gte: key, limit: count }).nextMany(count)) {
      use(value);
    }
  }

  describe(): Record<string, unknown> {
    const { path, hugePages, regionSize, chunkSize, chunks } = inspectSync(this.#store.url);
    const { traffic, retries, resizes, loadFactor, globalDepth } = this.#store.stats();
    const pool = { path, hugePages, regionSize, chunkSize, chunks };
    return { pool, store: { traffic, retries, resizes, loadFactor, globalDepth } };
  }

  close(): void {
    this.#store.close();
  }
}

export function openStepwellPeer(settings: PeerSettings, index: string): SyncPeer {
  const store = openSync<Uint8Array>(settings.place, {
    size: settings.capacity,
    keys: 'utf8',
    values: 'bytes',
    client: 'bench',
    index: index as IndexName,
  });
  return new StepwellPeer(store);
}
