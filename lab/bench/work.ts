import { Batch } from '../support/batch.ts';
import { type Clock, monotonic } from '../support/clock.ts';
import { distribution, KeyGenerator, Prng, ValueGenerator } from '../workloads/index.ts';
import type { AsyncPeer, Peer, SyncPeer } from './peers/peer.ts';
import { type PeerSettings, SCAN_RECORDS, type Task, type Timing } from './protocol.ts';

const MANY = 32;
const PIPELINE = 100;
const BATCH = 1024;
/** Warm-up operations of a worker process. */
export const WARM_UP = 20_000;

/** The keys and values of a task, made before its clock starts. */
interface Prepared {
  task: Task;
  keys: string[];
  groups: string[][];
  values: Buffer[];
}

/** Runs tasks on one peer, in a process of its own. */
export class Work {
  readonly #peer: Peer;
  readonly #settings: PeerSettings;
  readonly #clock: Clock;
  readonly #keyOf = new KeyGenerator();
  readonly #values = new ValueGenerator();
  readonly #kept: string[] = [];
  /** Operations of each task before the clock starts. */
  readonly #warmUpCount: number;
  #prepared: Prepared | undefined;

  constructor(peer: Peer, settings: PeerSettings, clock: Clock = monotonic, warmUp = 0) {
    this.#warmUpCount = warmUp;
    this.#peer = peer;
    this.#settings = settings;
    this.#clock = clock;
    if (!settings.keepKeys) return;
    for (let i = 0; i < settings.records; i++) this.#kept.push(this.#keyOf.string(i));
  }

  prepare(task: Task): void {
    this.#prepared = undefined;
    const records = this.#choose(task);
    const keys = records.map((record) => this.#key(record, task.freshKeys));
    const grouping = task.operation === 'getMany' ? MANY : PIPELINE;
    const grouped = task.operation === 'getMany' || task.operation === 'pipeline';
    const writes = task.operation === 'insert' || task.operation === 'set';
    this.#prepared = {
      task,
      keys,
      groups: grouped ? inGroups(keys, grouping) : [],
      // Every write has a value of its own, as a program's would be.
      values: writes ? records.map((record) => this.#values.buffer(record, task.seed)) : [],
    };
    // Collect the garbage of the preparation now, not during the timed part.
    globalThis.gc?.();
    this.#warmUp(this.#prepared);
  }

  /**
   * The collection discards compiled code that was unused for a while; untimed operations bring it
   * back. Insertions cannot be repeated, so they get no warm-up.
   */
  #warmUp(prepared: Prepared): void {
    const peer = this.#peer;
    if (peer.kind !== 'sync' || prepared.task.operation === 'insert') return;
    const count = this.#warmUpCount;
    const { keys, groups, values } = prepared;
    runSync(peer, {
      ...prepared,
      keys: keys.slice(0, count),
      groups: groups.slice(0, Math.ceil(count / MANY)),
      values: values.slice(0, count),
    });
  }

  /** Runs the prepared task, beginning at `at` on the shared clock. */
  async run(at: bigint): Promise<Timing> {
    const prepared = this.#prepared;
    if (prepared === undefined) throw new Error('nothing was prepared');
    this.#prepared = undefined;
    while (this.#clock() < at);
    const begin = this.#clock();
    const peer = this.#peer;
    const done = peer.kind === 'sync' ? runSync(peer, prepared) : await runAsync(peer, prepared);
    const end = this.#clock();
    if (done !== prepared.keys.length) {
      throw new Error(`${prepared.keys.length - done} of ${prepared.keys.length} keys not found`);
    }
    return { begin, end, operations: prepared.keys.length };
  }

  /** Loads every record with the peer's setMany. The time includes making the keys. */
  loadAll(): Timing {
    if (this.#peer.kind !== 'sync' || this.#peer.setMany === undefined) {
      throw new Error(`${this.#settings.peer} has no batch load`);
    }
    const begin = this.#clock();
    const batch = new Batch(Math.min(BATCH, this.#settings.records));
    for (let from = 0; from < this.#settings.records; from += batch.size) {
      this.#peer.setMany(batch.fill(from, this.#settings.records, this.#keyOf, this.#values));
    }
    return { begin, end: this.#clock(), operations: this.#settings.records };
  }

  /** Checks a sample: records have their values, and keys that were never written are absent. */
  async verify(count: number, seed: number): Promise<void> {
    const prng = Prng.fromSeed(seed);
    for (let i = 0; i < count; i++) {
      const record = prng.below(this.#settings.records);
      const value = await this.#peer.get(this.#keyOf.string(record));
      if (value === undefined || value === null || !this.#values.belongsTo(value, record)) {
        throw new Error(`record ${record} does not have its value`);
      }
      const absent = this.#keyOf.string(this.#settings.records + prng.below(2 ** 40));
      if ((await this.#peer.get(absent)) != null) throw new Error('found a key never written');
    }
  }

  describe(): Record<string, unknown> {
    return this.#peer.describe?.() ?? {};
  }

  async close(): Promise<void> {
    await this.#peer.close();
  }

  #choose(task: Task): number[] {
    if (task.operation === 'insert') {
      return Array.from({ length: task.operations }, (_, i) => task.from + i);
    }
    const prng = Prng.fromSeed(task.seed);
    const requests = distribution(task.distribution, this.#settings.records, prng);
    return Array.from({ length: task.operations }, () => requests.next());
  }

  #key(record: number, fresh: boolean): string {
    return fresh || !this.#settings.keepKeys ? this.#keyOf.string(record) : this.#kept[record];
  }
}

function inGroups<T>(items: readonly T[], size: number): T[][] {
  const groups: T[][] = [];
  for (let at = 0; at < items.length; at += size) groups.push(items.slice(at, at + size));
  return groups;
}

/**
 * The value's first byte as a weight too small to change a count, so that V8 cannot skip the read.
 */
function touch(value: Uint8Array): number {
  return value[0] * 2 ** -40;
}

/** Returns how many operations succeeded; reads touch their values. */
function runSync(peer: SyncPeer, prepared: Prepared): number {
  const { operation } = prepared.task;
  if (operation === 'get') return getEach(peer, prepared.keys);
  if (operation === 'getMany') return getGroups(peer, prepared.groups);
  if (operation === 'scan') return scanEach(peer, prepared.keys);
  if (operation === 'pipeline') throw new Error('a synchronous peer has no pipeline');
  return setEach(peer, prepared.keys, prepared.values);
}

function getEach(peer: SyncPeer, keys: readonly string[]): number {
  let found = 0;
  for (let i = 0; i < keys.length; i++) {
    const value = peer.get(keys[i]);
    if (value !== undefined) found += 1 + touch(value);
  }
  return Math.floor(found);
}

/** A scan counts if it found a record. */
function scanEach(peer: SyncPeer, keys: readonly string[]): number {
  if (peer.scan === undefined) throw new Error('this peer has no order');
  let touched = 0;
  let found = 0;
  const use = (value: Uint8Array) => {
    touched += 1 + touch(value);
  };
  for (let i = 0; i < keys.length; i++) {
    const before = touched;
    peer.scan(keys[i], SCAN_RECORDS, use);
    if (touched > before) found++;
  }
  return found;
}

async function awaitScans(peer: AsyncPeer, keys: readonly string[]): Promise<number> {
  if (peer.scan === undefined) throw new Error('this peer has no order');
  let touched = 0;
  let found = 0;
  const use = (value: Uint8Array) => {
    touched += 1 + touch(value);
  };
  for (const key of keys) {
    const before = touched;
    await peer.scan(key, SCAN_RECORDS, use);
    if (touched > before) found++;
  }
  return found;
}

function getGroups(peer: SyncPeer, groups: readonly string[][]): number {
  if (peer.getMany === undefined) throw new Error('this peer has no getMany');
  let found = 0;
  for (let i = 0; i < groups.length; i++) {
    const values = peer.getMany(groups[i]);
    for (let j = 0; j < values.length; j++) {
      const value = values[j];
      if (value !== undefined) found += 1 + touch(value);
    }
  }
  return Math.floor(found);
}

function setEach(peer: SyncPeer, keys: readonly string[], values: readonly Buffer[]): number {
  for (let i = 0; i < keys.length; i++) peer.set(keys[i], values[i]);
  return keys.length;
}

async function runAsync(peer: AsyncPeer, prepared: Prepared): Promise<number> {
  const { operation } = prepared.task;
  if (operation === 'get') return awaitEach(peer, prepared.keys);
  if (operation === 'pipeline') return awaitGroups(peer, prepared.groups);
  if (operation === 'scan') return awaitScans(peer, prepared.keys);
  if (operation === 'getMany') throw new Error('use the pipeline of an asynchronous peer');
  return setPipelined(peer, prepared.keys, prepared.values);
}

async function awaitEach(peer: AsyncPeer, keys: readonly string[]): Promise<number> {
  let found = 0;
  for (const key of keys) {
    const value = await peer.get(key);
    if (value !== null) found += 1 + touch(value);
  }
  return Math.floor(found);
}

async function awaitGroups(peer: AsyncPeer, groups: readonly string[][]): Promise<number> {
  let found = 0;
  for (const group of groups) {
    const values = await Promise.all(group.map((key) => peer.get(key)));
    for (const value of values) if (value !== null) found += 1 + touch(value);
  }
  return Math.floor(found);
}

/** Asynchronous peers write only to load records, so this uses pipelines. */
async function setPipelined(peer: AsyncPeer, keys: readonly string[], values: readonly Buffer[]) {
  for (let at = 0; at < keys.length; at += BATCH) {
    const group = keys.slice(at, at + BATCH);
    await Promise.all(group.map((key, i) => peer.set(key, values[at + i])));
  }
  return keys.length;
}
