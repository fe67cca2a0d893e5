/** A process that fills one peer, then changes its keys at a steady rate until it is told to end. */
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
}

let opened: Opened | undefined;
let changing: Promise<number> | undefined;
let isOver = false;

async function handle(message: WriterMessage): Promise<object> {
  if (message.kind === 'open') {
    const { peer, place } = message;
    const versions = Versions.attach(place.versions, place.keys);
    const writer = await openWriter(peer, place);
    opened = { place, keys: keysOf(place.keys), versions, writer };
    for (let id = 0; id < place.keys; id++) await write(opened, id, 1);
    return {};
  }
  if (opened === undefined) throw new Error('no peer is open');
  if (message.kind === 'change') {
    isOver = false;
    changing = change(opened, message.perSecond);
    return {};
  }
  isOver = true;
  return { changes: (await changing) ?? 0 };
}

/** The version is acknowledged once the peer says that it is stored. */
async function write(of: Opened, id: number, version: number): Promise<void> {
  const { writer, keys, place, versions } = of;
  if (writer === undefined) return;
  const pending = writer.set(keys[id], contentOf(place.values, id, version));
  if (pending instanceof Promise) await pending;
  versions.acknowledge(id, version);
}

/** Changes keys by chance; returns how many. */
async function change(of: Opened, perSecond: number): Promise<number> {
  const random = Prng.fromSeed(7);
  const began = performance.now();
  let changes = 0;
  while (!isOver) {
    const due = ((performance.now() - began) * perSecond) / 1000;
    for (; changes < due && !isOver; changes++) {
      const id = random.below(of.place.keys);
      await write(of, id, of.versions.acknowledged(id) + 1);
    }
    await pause(BURST_MS);
  }
  return changes;
}

serve(handle);
