import { StepwellError } from '../../../errors.ts';
import { SharedFabric } from '../../../fabrics/shared/shared-fabric.ts';
import { CATALOG_OFFSET, PoolLayout } from '../../../pool/layout.ts';
import type { Prng } from '../../../random/prng.ts';
import { type Batch, PAUSE, READ, REGION_STRIDE } from '../../../verbs/index.ts';
import type { IndexChoice, IndexName, OpenOptions, PoolHandle, Store } from '../../api.ts';
import { checkSync, inspectSync, openSync } from '../../open.ts';
import type { Scope } from './pools.ts';
import { replace } from './replace.ts';

/** Limits of a call on a pool of a few MiB: 100,000 batches take less than half a second. */
const BATCHES_MAX = 100_000;
const PAUSES_MAX_MICROSECONDS = 1_000_000;

/** Counts the work of calls in batches and in pauses, which pass at once: nothing is timed. */
export class Work {
  batches = 0;
  pauses = 0;
  /** Microseconds of all pauses that have passed. */
  #paused = 0;
  /** Bytes of the largest local buffer that a verb named. */
  largest = 0;
  /** Called with each word that is read by a short READ, or changed. */
  onWord: ((address: number) => void) | undefined;

  constructor(t: Scope) {
    const work = this;
    const { now } = performance;
    // Pauses take no real time but advance the clock, so that a wait for a lock holder ends.
    const later = () => now.call(performance) + work.#paused / 1000;
    t.after(replace(performance, 'now', later));
    const { execute } = SharedFabric.prototype;
    const counted = function (this: SharedFabric, batch: Batch) {
      work.#count(batch);
      execute.call(this, batch);
    };
    t.after(replace(SharedFabric.prototype, 'execute', counted));
  }

  begin(): void {
    this.batches = 0;
    this.pauses = 0;
    this.largest = 0;
  }

  /** Names the limit that a call exceeded; undefined if it exceeded none. */
  excess(poolBytes: number, batchesMax = BATCHES_MAX): string | undefined {
    if (this.batches > batchesMax) return `raw: ${this.batches} batches`;
    if (this.pauses > PAUSES_MAX_MICROSECONDS) return 'raw: too many pauses';
    if (this.largest > 2 * poolBytes) return `raw: a buffer of ${this.largest} bytes`;
    return undefined;
  }

  #count(batch: Batch): void {
    this.batches++;
    for (let row = 0; row < batch.length; row++) {
      if (batch.kind[row] === PAUSE) {
        this.pauses += batch.bytes[row];
        this.#paused += batch.bytes[row];
        batch.bytes[row] = 0;
        continue;
      }
      this.largest = Math.max(this.largest, batch.scratch[row].u8.length);
      this.#note(batch.kind[row], batch.address[row], batch.bytes[row]);
    }
    // An endless loop has to end for the test to go on.
    if (this.batches > 2 * BATCHES_MAX || this.pauses > 2 * PAUSES_MAX_MICROSECONDS) {
      throw new Error('too much work');
    }
  }

  #note(kind: number, address: number, bytes: number): void {
    if (this.onWord === undefined) return;
    const noted = kind === READ ? Math.min(bytes, 4096) : 8;
    for (let at = address - (address % 8); at < address + noted; at += 8) this.onWord(at);
  }
}

export const KEYS = 120;
const ORDERED: readonly IndexName[] = ['chime', 'hstore'];
const POOL: OpenOptions = {
  size: 4 * 2 ** 20,
  regionSize: 2 ** 20,
  maxClients: 8,
  client: 'test',
};
const SHAPES: Partial<Record<IndexName, IndexChoice>> = {
  hstore: { kind: 'hstore', rows: 64, log: 256, buckets: 256 },
};

export interface Word {
  region: number;
  index: number;
}

function sampleOf(index: IndexName): PoolHandle {
  const store = openSync('memory:', { ...POOL, index: SHAPES[index] ?? index });
  for (let i = 0; i < KEYS; i++) store.set(`key ${i}`, sampleValue(i));
  store.set('long', 'v'.repeat(600_000));
  for (let i = 0; i < 10; i++) store.delete(`key ${i * 3}`);
  const { handle } = store;
  // Each use is a client of its own: one that stays would know what is no longer there.
  store.close();
  return handle;
}

/** A pool of several regions with a store, and what brings it back to how it was. */
export class DamagedPool {
  readonly handle: PoolHandle;
  readonly index: IndexName;
  readonly regions: BigInt64Array[];
  readonly #images: Uint8Array[];
  readonly #work: Work;

  /** `handle`: of a pool that no client has open any more. */
  constructor(index: IndexName, work: Work, handle = sampleOf(index)) {
    this.index = index;
    this.#work = work;
    this.handle = handle;
    const { memory } = this.handle as { memory: SharedArrayBuffer[] };
    this.regions = memory.map((region) => new BigInt64Array(region));
    this.#images = memory.map((region) => new Uint8Array(region).slice());
  }

  get bytes(): number {
    return this.regions.reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  restore(): void {
    this.regions.forEach(({ buffer }, i) => {
      if (this.#images[i]) new Uint8Array(buffer).set(this.#images[i]);
    });
  }

  /** The words that the calls look at or change, most often used first. */
  words(): Word[] {
    const uses = new Map<number, number>();
    this.#work.onWord = (address) => uses.set(address, (uses.get(address) ?? 0) + 1);
    try {
      this.use(true);
    } finally {
      this.#work.onWord = undefined;
      this.restore();
    }
    const region = (address: number) => Math.floor(address / REGION_STRIDE);
    return [...uses]
      .sort(([, a], [, b]) => b - a)
      .map(([at]) => ({ region: region(at), index: (at % REGION_STRIDE) / 8 }))
      .filter((word) => word.region < this.#images.length);
  }

  /** The first words of the index's root, and the words of all chunks that are taken. */
  rootAndChunkWords(count: number): (Word & { name: string })[] {
    const [first] = this.regions;
    const shape = { regionBytes: 2 ** 20, regionsMax: 4, clientsMax: POOL.maxClients as number };
    const layout = new PoolLayout({ ...shape, createdAt: 0, poolId: 0 });
    const root = Number(first[(CATALOG_OFFSET + 8) >> 3]);
    const words = Array.from({ length: count }, (_, i) => {
      const at = (root % REGION_STRIDE) / 8 + i;
      return { region: Math.floor(root / REGION_STRIDE), index: at, name: `root ${i}` };
    });
    for (let chunk = layout.reservedChunks; chunk < layout.chunksMax; chunk++) {
      const index = layout.chunkWord(chunk) / 8;
      if (first[index] !== 0n) words.push({ region: 0, index, name: `chunk ${chunk}` });
    }
    return words.filter(({ region }) => region < this.regions.length);
  }

  /** Uses the pool as a program would. Outcomes that begin with `raw` are faults. */
  use(isFull: boolean): [call: string, outcome: string][] {
    return this.attempts((attempt) => this.#use(attempt, isFull));
  }

  /** The outcomes of some calls. */
  attempts(
    calls: (attempt: Attempt) => void,
    batchesMax?: number,
  ): [call: string, outcome: string][] {
    const outcomes: [string, string][] = [];
    calls((call, action) => {
      this.#work.begin();
      const outcome = outcomeOf(action);
      outcomes.push([call, this.#work.excess(this.bytes, batchesMax) ?? outcome]);
    });
    return outcomes;
  }

  #use(attempt: Attempt, isFull: boolean): void {
    attempt('inspect', () => inspectSync(this.handle));
    attempt('check', () => checkSync(this.handle));
    let opened: Store | undefined;
    attempt('open', () => {
      opened = openSync(this.handle, { create: false });
    });
    if (opened !== undefined) {
      useStore(opened, attempt);
      if (ORDERED.includes(this.index)) useOrder(opened, attempt);
      if (isFull) fill(opened, attempt);
    }
    attempt('check', () => checkSync(this.handle));
    attempt('open another', () => openSync(this.handle, { store: 'another' }).close());
    attempt('close', () => opened?.close());
  }
}

/** The code of an error of the project; anything else begins with `raw` and says whence it came. */
function outcomeOf(action: () => unknown): string {
  try {
    action();
    return 'returned';
  } catch (error) {
    if (error instanceof StepwellError) return error.code;
    const { message, stack = '' } = error as Error;
    const frames = stack.match(/src\/[^)]*:\d+/g) ?? [];
    return `raw ${message}: ${frames.slice(0, 5).join(' < ')}`;
  }
}

function sampleValue(i: number): string {
  return `value ${i} `.repeat(1 + (i % 9));
}

export type Attempt = (call: string, action: () => unknown) => void;

function useStore(store: Store, attempt: Attempt): void {
  const keys = Array.from({ length: KEYS }, (_, i) => `key ${i}`);
  attempt('get many', () => store.getMany(keys).forEach(expectOne));
  for (let i = 1; i < KEYS; i += 12) attempt('get', () => expectOne(store.get(keys[i]), i));
  attempt('get', () => store.get('long'));
  for (let i = 0; i < 10; i++) attempt('put', () => store.set(keys[i], 'w'.repeat(200 * i)));
  attempt('put many', () => store.setMany(keys.slice(80, 90).map((key) => [key, 'many'])));
  for (let i = 60; i < 66; i++) attempt('delete', () => store.delete(keys[i]));
  attempt('delete many', () => store.deleteMany(keys.slice(72, 80)));
  attempt('delete', () => store.delete('long'));
  attempt('increment', () => store.increment('count'));
  attempt('walk', () => [...store]);
  attempt('page', () => store.scanPage(0, 50));
  attempt('size', () => store.size);
  attempt('stats', () => store.stats());
}

function useOrder(store: Store, attempt: Attempt): void {
  attempt('range', () => [...store.entries({ gte: 'key 1', lt: 'key 2' })]);
  attempt('reverse range', () => [...store.keys({ gt: 'key 2', reverse: true, limit: 40 })]);
  attempt('first', () => store.first());
  attempt('last', () => store.last());
  attempt('count', () => store.count({ gte: 'key 1', lt: 'key 2' }));
}

/** Until the pool is full, which is when clients sweep. */
function fill(store: Store, attempt: Attempt): void {
  for (let i = 0; i < 4; i++) attempt('put', () => store.set(`more ${i}`, 'm'.repeat(700_000)));
  attempt('clear', () => store.clear());
}

function expectOne(found: unknown, i: number): void {
  if (found !== undefined && found !== sampleValue(i)) throw new Error('a value that nobody put');
}

/** Changes one word: a flipped bit, nothing, any bits, a small number, or another word. */
export function damage(pool: DamagedPool, { region, index }: Word, random: Prng): string {
  const words = pool.regions[region];
  const bits = () => BigInt(random.below(2 ** 32)) | (BigInt(random.below(2 ** 32)) << 32n);
  const near = index + random.below(17) - 8;
  const values = [
    words[index] ^ (1n << BigInt(random.below(64))),
    0n,
    bits(),
    bits() >> 40n,
    -1n,
    words[index] + 1n,
    words[index] - 1n,
    words[near] ?? 0n,
    bits() & 0xffffffffn,
  ];
  words[index] = values[random.below(values.length)];
  return `word ${index * 8} of region ${region} = ${BigInt.asUintN(64, words[index]).toString(16)}`;
}
