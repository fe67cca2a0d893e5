/** A process that fills one peer, and changes its keys at a steady rate while told to. */
import { setTimeout as pause } from 'node:timers/promises';
import { Prng } from '../workloads/index.ts';
import { openWriter, type Writer } from './peers.ts';
import { contentOf, keysOf, type PeerName, type Place } from './plan.ts';
import { serve } from './processes.ts';
import { Versions } from './versions.ts';

export type WriterMessage =
  | { readonly kind: 'open'; readonly peer: PeerName; readonly place: Place }
  | { readonly kind: 'change'; readonly perSecond: number }
  | { readonly kind: 'rest' };

/** Changes come in bursts this far apart. */
const BURST_MS = 5;

interface Opened {
  readonly place: Place;
  readonly keys: readonly string[];
  readonly versions: Versions;
  readonly writer: Writer | undefined;
  readonly random: Prng;
}

/** The first message opens a peer for those that follow. */
function writing(): (message: WriterMessage) => Promise<object> {
  let opened: Opened | undefined;
  let resting = new AbortController();
  let changing: Promise<number> | undefined;
  return async (message) => {
    if (message.kind === 'open') {
      opened = await open(message.peer, message.place);
      return {};
    }
    if (opened === undefined) throw new Error('no peer is open');
    if (message.kind === 'change') {
      resting = new AbortController();
      changing = change(opened, message.perSecond, resting.signal);
      return {};
    }
    resting.abort();
    return { changes: (await changing) ?? 0 };
  };
}

/** Opens the peer and writes version 1 of every key. */
async function open(peer: PeerName, place: Place): Promise<Opened> {
  const versions = Versions.attach(place.versions, place.keys);
  const writer = await openWriter(peer, place);
  const opened = { place, keys: keysOf(place.keys), versions, writer, random: Prng.fromSeed(7) };
  for (let id = 0; id < place.keys; id++) await write(opened, id, 1);
  return opened;
}

/** Writes a version, and acknowledges it once the peer has stored it. */
async function write(of: Opened, id: number, version: number): Promise<void> {
  const { writer, keys, place, versions } = of;
  if (writer === undefined) return;
  const pending = writer.set(keys[id], contentOf(place.values, id, version));
  if (pending instanceof Promise) await pending;
  versions.acknowledge(id, version);
}

/** Changes random keys; returns how many. */
async function change(of: Opened, perSecond: number, resting: AbortSignal): Promise<number> {
  const began = performance.now();
  let changes = 0;
  while (!resting.aborted) {
    const due = ((performance.now() - began) * perSecond) / 1000;
    for (; changes < due && !resting.aborted; changes++) {
      const id = of.random.below(of.place.keys);
      await write(of, id, of.versions.acknowledged(id) + 1);
    }
    await pause(BURST_MS);
  }
  return changes;
}

serve(writing());
