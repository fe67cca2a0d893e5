/** A process that reads one peer and times it. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { OpenOptions } from '../../src/store/api.ts';
import { distribution, KeyGenerator, Prng } from '../workloads/index.ts';
import { openReader, openStore, type Reader } from './peers.ts';
import {
  type ColdResult,
  contentOf,
  keysOf,
  type PeerName,
  type Place,
  type ReadResult,
  type ReadTask,
  versionOf,
} from './plan.ts';
import { serve } from './processes.ts';
import { Versions } from './versions.ts';

export type ReaderMessage =
  | { readonly kind: 'open'; readonly peer: PeerName; readonly place: Place }
  | { readonly kind: 'read'; readonly task: ReadTask }
  | { readonly kind: 'cold' };

interface Opened {
  readonly peer: PeerName;
  readonly place: Place;
  readonly keys: readonly string[];
  readonly versions: Versions;
  reader: Reader;
}

/** A near cache admits a value at its second read. */
const WARMING = 3;

/** The first message opens a peer for those that follow. */
function reading(): (message: ReaderMessage) => Promise<ReadResult | ColdResult | object> {
  let opened: Opened | undefined;
  return async (message) => {
    if (message.kind === 'open') {
      opened = await open(message.peer, message.place);
      return {};
    }
    if (opened === undefined) throw new Error('no peer is open');
    return message.kind === 'read' ? await read(opened, message.task) : await cold(opened);
  };
}

async function open(peer: PeerName, place: Place): Promise<Opened> {
  const versions = Versions.attach(place.versions, place.keys);
  const reader = await openReader(peer, place);
  const keys = keysOf(place.keys);
  // After this, caches have all keys, and the code is compiled.
  for (let pass = 0; pass < WARMING; pass++) await timed(reader, keys);
  return { peer, place, keys, versions, reader };
}

async function read({ reader, keys, versions }: Opened, task: ReadTask): Promise<ReadResult> {
  const next = distribution(task.distribution, keys.length, Prng.fromSeed(task.seed));
  const chosen = Int32Array.from({ length: task.reads }, () => next.next());
  if (task.checked)
    return { nanoseconds: 0, stale: await countStale(reader, keys, versions, chosen) };
  const generator = new KeyGenerator(1);
  const asked = Array.from(chosen, (id) => (task.heldKeys ? keys[id] : generator.string(id)));
  return { nanoseconds: await timed(reader, asked), stale: 0 };
}

/** Mean nanoseconds of a read, one after another. */
async function timed(
  reader: Pick<Reader, 'get'>,
  asked: readonly string[],
  hold?: (key: string, value: unknown) => void,
): Promise<number> {
  const began = process.hrtime.bigint();
  for (const key of asked) {
    const value = reader.get(key);
    if (value instanceof Promise) await value;
    else if (value === undefined) throw new Error(`${key} is absent`);
    hold?.(key, value);
  }
  return Number(process.hrtime.bigint() - began) / asked.length;
}

async function countStale(
  reader: Reader,
  keys: readonly string[],
  versions: Versions,
  chosen: Int32Array,
): Promise<number> {
  let stale = 0;
  for (const id of chosen) {
    const acknowledged = versions.acknowledged(id);
    const value = reader.get(keys[id]);
    const version = versionOf(value instanceof Promise ? await value : value);
    if (!(version >= acknowledged)) stale++;
  }
  return stale;
}

/**
 * Times reads that a near cache cannot answer, beside those of a handle without one. All handles
 * use the same heap and code, none has read before, and each starts after a garbage collection.
 */
async function cold({ place, keys }: Opened): Promise<ColdResult> {
  const warming = openStore(place);
  const plain = openStore(place);
  const behind = openStore(place);
  const near = openStore(place, { nearCache: place.keys });
  const open = openStore(place, { nearCache: { maxEntries: place.keys, freeze: false } });
  const map = new Map<string, unknown>();
  const run = async (reader: Pick<Reader, 'get'>, hold?: (key: string, value: unknown) => void) => {
    collectGarbage();
    return await timed(reader, keys, hold);
  };
  try {
    await run(warming);
    const first: Record<string, number> = {
      stepwell: await run(plain),
      'stepwell near': await run(near),
      'stepwell near, not frozen': await run(open),
      'stepwell behind a Map': await run({ get: (key) => map.get(key) ?? behind.get(key) }),
    };
    const second: Record<string, number> = {
      stepwell: await run(plain),
      'stepwell near': await run(near),
      'stepwell near, not frozen': await run(open),
      'stepwell, values kept in a Map': await run(plain, (key, value) => map.set(key, value)),
    };
    return {
      'first reads of a key': first,
      'second reads of a key': second,
      'uniform, held keys, bounded': await bounded(place, keys, near),
    };
  } finally {
    for (const store of [warming, plain, behind, near, open]) store.close();
  }
}

/** Near reads of a bounded store, which records their uses in the pool, and of an unbounded one. */
async function bounded(
  place: Place,
  keys: readonly string[],
  unbounded: Pick<Reader, 'get'>,
): Promise<Record<string, number>> {
  const options: Partial<OpenOptions> = {
    store: 'bounded',
    maxRecords: 2 * keys.length,
    eviction: 'lru',
  };
  const plain = openStore(place, options);
  const near = openStore(place, { ...options, nearCache: place.keys });
  try {
    keys.forEach((key, id) => {
      if (plain.get(key) === undefined) plain.set(key, contentOf(place.values, id, 1));
    });
    const random = Prng.fromSeed(1);
    const chosen = () => Array.from(keys, () => keys[random.below(keys.length)]);
    for (let pass = 0; pass < WARMING; pass++) {
      await timed(near, keys);
      await timed(unbounded, keys);
    }
    // Random reads, so that the entries do not reach their eighth use together.
    for (let pass = 0; pass < WARMING; pass++) await timed(near, chosen());
    const asked = chosen();
    collectGarbage();
    return {
      stepwell: await timed(plain, asked),
      'stepwell near': await timed(near, asked),
      'stepwell near, unbounded': await timed(unbounded, asked),
    };
  } finally {
    near.close();
    plain.close();
  }
}

function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}

serve(reading());
