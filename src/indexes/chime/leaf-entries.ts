import { HEADER_BYTES, unitsOf } from '../../records/layout.ts';
import { type Operation, UNIT_BYTES } from '../../verbs/index.ts';
import { homeAt, isVacantAt, placeAt, type Slots } from './hopscotch.ts';
import type { Borders, KeyScale } from './key-scale.ts';
import { separatorOf } from './keys.ts';
import type { LeafClient } from './leaf-client.ts';
import { hintOf, isLive, lengthOf, recordOf, SLOT_FROZEN, withHint } from './slot.ts';
import type { Workbench } from './workbench.ts';

/** Lines of a record that are read to learn its key; a longer key costs another READ. */
const HEAD_UNITS = 2;

/** Slots as they are in the new leaf: committed ones without FROZEN, and nothing else. */
export function thaw(slots: Int32Array): void {
  for (let i = 0; i < slots.length; i += 2) {
    if (isLive(slots[i], slots[i + 1])) {
      slots[i + 1] &= ~SLOT_FROZEN;
    } else {
      slots[i] = 0;
      slots[i + 1] = 0;
    }
  }
}

/** A leaf's entries cut into two leaves by their keys. */
export interface Halves {
  left: Slots;
  right: Slots;
  /** What separates the keys. */
  separator: Uint8Array;
}

export function* halve(tree: LeafClient, slots: Slots, borders: Borders): Operation<Halves> {
  const { neighbourhood } = tree.geometry.shape;
  const { lower, upper } = borders;
  const bench = tree.spareBenches.take();
  try {
    yield* sortKeys(slots, bench, bench.scale.set(borders));
    const { count, sorted } = bench.keys;
    const middle = count >>> 1;
    const separator = separatorOf(keyAt(bench, sorted[middle - 1]), keyAt(bench, sorted[middle]));
    // A copy: when there is no room for two leaves, the entries stay those of one.
    const hinted = slots.slice();
    hintAnew(hinted, bench, 0, middle, { lower, upper: separator });
    hintAnew(hinted, bench, middle, count, { lower: separator, upper });
    const left = arranged(hinted, bench, 0, middle, neighbourhood);
    return { left, right: arranged(hinted, bench, middle, count, neighbourhood), separator };
  } finally {
    tree.spareBenches.give(bench);
  }
}

/** The entries at some places of the order get the hints that they have between other borders. */
function hintAnew(
  slots: Slots,
  { keys, slots: slotOf, heads, scale }: Workbench,
  from: number,
  end: number,
  borders: Borders,
): void {
  scale.set(borders);
  for (let i = from; i < end; i++) {
    const number = keys.sorted[i];
    const at = keys.at[number] + HEADER_BYTES;
    const word = 2 * slotOf[number] + 1;
    slots[word] = withHint(slots[word], scale.hintOf(heads.u8, at, at + keys.keyBytes[number]));
  }
}

/** Entries whose leaf gets other borders, for who does not know their keys. */
export function withoutHints(slots: Slots): Slots {
  const fresh = slots.slice();
  for (let i = 1; i < fresh.length; i += 2) fresh[i] = withHint(fresh[i], 0);
  return fresh;
}

/**
 * The entries at some places of the order, near their homes: kept where hopping had driven them,
 * the leaf would be split again earlier: at 85.8 % of 64 slots, not at 92.5 %. Where that does not
 * fit they stay where they are.
 */
function arranged(
  slots: Slots,
  { keys, slots: slotOf }: Workbench,
  from: number,
  end: number,
  neighbourhood: number,
): Slots {
  const fresh = new Int32Array(slots.length);
  for (let i = from; i < end; i++) {
    const slot = slotOf[keys.sorted[i]];
    const home = homeAt(slots, slot);
    if (!placeAt(fresh, slots[2 * slot], slots[2 * slot + 1], home, neighbourhood)) {
      return keptWhereTheyAre(slots, slotOf, keys.sorted.subarray(from, end));
    }
  }
  return fresh;
}

function keptWhereTheyAre(slots: Slots, slotOf: Int32Array, numbers: Int32Array): Slots {
  const fresh = new Int32Array(slots.length);
  for (const number of numbers) {
    const slot = slotOf[number];
    fresh[2 * slot] = slots[2 * slot];
    fresh[2 * slot + 1] = slots[2 * slot + 1];
  }
  return fresh;
}

/** The keys of all entries with their slots, in the order of the keys. */
export function* readKeys(
  tree: LeafClient,
  slots: Slots,
): Operation<{ slot: number; key: Uint8Array }[]> {
  const bench = tree.spareBenches.take();
  try {
    yield* sortKeys(slots, bench, undefined);
    const numbers = bench.keys.sorted.subarray(0, bench.keys.count);
    return Array.from(numbers, (i) => ({ slot: bench.slots[i], key: keyAt(bench, i) }));
  } finally {
    tree.spareBenches.give(bench);
  }
}

function keyAt({ heads, keys }: Workbench, i: number): Uint8Array {
  const at = keys.at[i] + HEADER_BYTES;
  return heads.u8.slice(at, at + keys.keyBytes[i]);
}

/**
 * Reads the keys of all entries, together, and sorts them: a second round trip for keys that end
 * behind the lines that are read at first. With the scale of their leaf, by their hints.
 */
function* sortKeys(slots: Slots, bench: Workbench, scale: KeyScale | undefined): Operation<void> {
  const { keys, heads } = bench;
  const span = slots.length / 2;
  heads.ensure(span * HEAD_UNITS * UNIT_BYTES);
  bench.ensureSlots(span);
  keys.clear();
  const batch = bench.batch.clear();
  for (let slot = 0; slot < span; slot++) {
    if (isVacantAt(slots, slot)) continue;
    const units = Math.min(HEAD_UNITS, lengthOf(slots[2 * slot + 1]));
    const at = keys.count * HEAD_UNITS * UNIT_BYTES;
    batch.read(recordOf(slots[2 * slot], slots[2 * slot + 1]), units * UNIT_BYTES, heads, at);
    bench.slots[keys.count] = slot;
    keys.add(at, hintOf(slots[2 * slot + 1]));
  }
  if (keys.count === 0) return;
  yield batch;
  keys.measure(heads);
  if (postLongKeys(slots, bench)) yield batch;
  keys.sort(heads, 0, keys.count, scale);
}

/** Adds the READs of keys that end behind what was read of their records; false for none. */
function postLongKeys(slots: Slots, { keys, heads, batch, slots: slotOf }: Workbench): boolean {
  const read = HEAD_UNITS * UNIT_BYTES;
  const begin = keys.count * read;
  let end = begin;
  batch.clear();
  for (let i = 0; i < keys.count; i++) {
    const needed = unitsOf(HEADER_BYTES + keys.keyBytes[i]) * UNIT_BYTES;
    if (needed <= read) continue;
    keys.at[i] = end;
    end += needed;
    const slot = slotOf[i];
    batch.read(recordOf(slots[2 * slot], slots[2 * slot + 1]), needed, heads, keys.at[i]);
  }
  if (end > heads.u8.length) {
    const before = heads.u8.slice(0, begin);
    heads.ensure(end);
    heads.u8.set(before, 0);
  }
  return batch.length > 0;
}
