import { StepwellError } from '../../../errors.ts';
import type { Key, OpenOptions, Value } from '../../../store/api.ts';
import type { CheckReport, PoolReport } from '../../../store/reports.ts';
import type { Library } from '../../context.ts';

interface FakeRecord {
  key: Key;
  value: Value;
  version: number;
}

/**
 * Pools as plain maps with the few calls that the command line makes. It says nothing about the
 * library; cli.integration.rest.test.ts runs the commands on the real one.
 */
export class FakePools {
  readonly pools = new Map<string, Map<string, FakeStore>>();
  readonly calls: string[] = [];
  problems: string[] = [];
  unfinished: CheckReport['unfinished'] = [];
  /** What clients that died left in each store. */
  left = { unswept: 0, blocks: 0, bytes: 0 };
  busy = false;
  openStores = 0;

  library(): Library {
    return {
      open: async (url: string, options: OpenOptions = {}) => this.#open(url, options),
      openServed: async (url: string, options: OpenOptions) => this.#open(url, options),
      openServedSync: (url: string, options: OpenOptions) => this.#open(url, options),
      create: async (url: string, options: OpenOptions = {}) => this.#create(url, options),
      destroy: async (url: string, { force = false } = {}) => this.#destroy(url, force),
      inspect: async (url: string) => this.#inspect(url),
      storeOptions: async () => ({ index: 'race' }),
      check: async (
        url: string,
        { onProgress }: { onProgress?: (...at: number[]) => void } = {},
      ) => {
        onProgress?.(1, 2);
        return this.#check(url);
      },
    } as unknown as Library;
  }

  store(url: string, name = 'default'): FakeStore {
    return this.#pool(url).get(name)!;
  }

  #create(url: string, { store, index, ...sizes }: OpenOptions): boolean {
    this.calls.push(`create ${url} ${JSON.stringify({ ...sizes, store, index })}`);
    const isNew = !this.pools.has(url);
    const alone = store === undefined && index === undefined;
    if (!isNew && (alone || sizes.size !== undefined)) {
      throw new StepwellError('SW_POOL_EXISTS', `${url} exists`);
    }
    const pool = this.pools.get(url) ?? new Map<string, FakeStore>();
    const name = store ?? 'default';
    if (pool.has(name))
      throw new StepwellError('SW_STORE_EXISTS', `store ${name} is there already`);
    this.pools.set(url, pool);
    if (!alone) pool.set(name, new FakeStore(this, url, name));
    return isNew;
  }

  #open(url: string, options: OpenOptions): FakeStore {
    this.calls.push(`open ${url} ${JSON.stringify(options)}`);
    if (!this.pools.has(url) && options.create !== false) this.pools.set(url, new Map());
    const pool = this.#pool(url);
    const name = options.store ?? 'default';
    if (!pool.has(name)) {
      if (options.create === false) throw new StepwellError('SW_STORE_NOT_FOUND', `no ${name}`);
      pool.set(name, new FakeStore(this, url, name));
    }
    this.openStores++;
    return pool.get(name)!;
  }

  #pool(url: string): Map<string, FakeStore> {
    const pool = this.pools.get(url);
    if (pool === undefined) throw new StepwellError('SW_POOL_NOT_FOUND', `no pool at ${url}`);
    return pool;
  }

  #destroy(url: string, force: boolean): void {
    this.#pool(url);
    if (this.busy && !force) throw new StepwellError('SW_POOL_BUSY', `${url} is attached`);
    this.pools.delete(url);
  }

  #inspect(url: string): PoolReport {
    const stores = [...this.#pool(url)].map(([name, store]) => {
      const memory = { records: 2048, subtables: 4096, directory: 64 };
      const parameters = { associativity: 7 };
      const sizes = { globalDepth: 1, subtables: 2, slots: 100, loadFactor: 0.25, memory };
      return { name, index: 'race', state: 'ready', parameters, records: store.count, ...sizes };
    });
    return {
      url,
      path: `/fake/${url}`,
      layoutVersion: 1,
      createdAt: '2026-01-01T00:00:00.000Z',
      sizeMax: 4 * 2 ** 30,
      sizeAtFirst: 4 * 2 ** 30,
      regionSize: 2 ** 30,
      regions: 1,
      chunkSize: 2 ** 20,
      chunks: { total: 1024, used: 3, free: 1021 },
      memory: FAKE_MEMORY,
      epoch: 5,
      hugePages: false,
      whyNoHugePages: 'the system gives none',
      maxClients: 128,
      clients: [fakeClient()],
      stores,
    };
  }

  #check(url: string): CheckReport {
    const stores = [...this.#pool(url)].map(([name, { count }]) => {
      const { unswept, ...left } = this.left;
      const leftover = { ...left, atMost: false, swept: false };
      return { name, records: count, subtables: 1, slots: 10, bytes: 4096, unswept, leftover };
    });
    const { blocks: leftBlocks, bytes } = this.left;
    const leftover = { blocks: leftBlocks * stores.length, bytes: bytes * stores.length };
    const blocks = { reachable: 3, claimed: 0, free: 1 };
    const { unfinished, problems } = this;
    return { url, stores, blocks, leftover, unreachable: 0, unfinished, problems };
  }
}

const FAKE_MEMORY: PoolReport['memory'] = {
  total: 4 * 2 ** 30,
  live: 5 * 2 ** 20,
  claimed: 1024,
  waiting: 3 * 2 ** 20,
  freeBlocks: 64,
  freeChunks: 2 ** 30,
  overhead: 2 ** 20,
  stores: [{ store: 'default', used: 8 * 2 ** 20, free: 64, live: null }],
  blocks: Array.from({ length: 13 }, (_, i) => {
    return { store: 'default', blockSize: 64 * (i + 1), chunks: 1, used: 64, free: 640 * i };
  }),
};

/** Its name tries to recolour the terminal. */
function fakeClient(): PoolReport['clients'][number] {
  const attachedAt = '2026-01-01T00:00:01.000Z';
  const name = 'web \u001b[31mred';
  const self = false;
  const held = { claimed: 1024, waiting: 3 * 2 ** 20, lags: true };
  return { id: 1, name, pid: 42, thread: 0, alive: true, self, attachedAt, epoch: 5, ...held };
}

export class FakeStore {
  readonly #pools: FakePools;
  readonly #records = new Map<string, FakeRecord>();
  readonly handle: string;
  readonly name: string;
  readonly batches: number[] = [];
  #version = 0;

  constructor(pools: FakePools, url: string, name: string) {
    this.#pools = pools;
    this.name = name;
    this.handle = url;
  }

  get count(): number {
    return this.#records.size;
  }

  /** What was put, not what another encoding would make of it. */
  peek(key: Key): Value | undefined {
    return this.#records.get(identity(key))?.value;
  }

  async get(key: Key): Promise<Uint8Array | undefined> {
    const value = this.peek(key);
    return value === undefined ? undefined : Buffer.from(value as string);
  }

  async write(key: Key, value: Value, { when }: { when: string }): Promise<{ written: boolean }> {
    const present = this.#records.has(identity(key));
    const written = when === 'always' || (when === 'present') === present;
    if (written) this.set(key, value);
    return { written };
  }

  set(key: Key, value: Value): void {
    this.#records.set(identity(key), { key, value, version: ++this.#version });
  }

  async loadSorted(entries: Iterable<[Key, Value]>): Promise<number> {
    const all = [...entries];
    const fails = all.findIndex(([key], i) => i > 0 && String(all[i - 1][0]) >= String(key));
    if (fails >= 0) throw new StepwellError('SW_INVALID_ARGUMENT', `record ${fails + 1}: order`);
    await this.setMany(all);
    return all.length;
  }

  async setMany(entries: [Key, Value][]): Promise<void> {
    this.batches.push(entries.length);
    for (const [key, value] of entries) this.set(key, value);
  }

  async deleteMany(keys: Key[]): Promise<number> {
    return keys.filter((key) => this.#records.delete(identity(key))).length;
  }

  async scanPage(cursor: number): Promise<{ cursor: number; entries: FakeRecord[] }> {
    const entries = [...this.#records.values()].slice(cursor, cursor + 2);
    const next = cursor + 2;
    return { cursor: next < this.#records.size ? next : 0, entries };
  }

  async size(): Promise<number> {
    return this.count;
  }

  clear(): void {
    this.#records.clear();
  }

  close(): void {
    this.#pools.openStores--;
  }
}

function identity(key: Key): string {
  return Buffer.from(key as string).toString('base64');
}
