/** A process that reads one peer and times it. */
import { distribution, KeyGenerator, Prng } from '../workloads/index.ts';
import { openReader, type Reader } from './peers.ts';
import {
  type ColdResult,
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

/** A near cache admits a value when it is read for the second time. */
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
  // Caches have all keys from here on, and the code is compiled.
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

/** Nanoseconds a read, one after the other. */
async function timed(reader: Reader, asked: readonly string[], held?: unknown[]): Promise<number> {
  const began = process.hrtime.bigint();
  for (const key of asked) {
    const value = reader.get(key);
    if (value instanceof Promise) await value;
    else if (value === undefined) throw new Error(`${key} is absent`);
    held?.push(value);
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

/** By a new handle: what the first and the second reading of a key cost that no handle has kept. */
async function cold(of: Opened): Promise<ColdResult> {
  await of.reader.close();
  of.reader = await openReader(of.peer, of.place);
  const first = await timed(of.reader, of.keys);
  const second = await timed(of.reader, of.keys);
  const held = await timed(of.reader, of.keys, []);
  return { first, second, held };
}

serve(reading());
