import type { Operation } from '../../verbs/index.ts';
import type { ChimeShape } from './geometry.ts';
import { isVacantAt, makeRoom, type Slots } from './hopscotch.ts';
import { compareWhole, separatorOf } from './keys.ts';
import { readKeys } from './leaf-entries.ts';
import { distanceOf, withDistance } from './slot.ts';

/** What replaces two neighbouring leaves: one, or two with another border between them. */
export interface MergedLeaves {
  leaves: Slots[];
  separators: Uint8Array[];
}

/** An entry of a leaf: its word, and the first slot of its neighbourhood. */
interface Entry {
  low: number;
  high: number;
  home: number;
}

/**
 * The entries of two leaves in one when that leaves a quarter of it empty; else shared out evenly;
 * else, where hopping does not find room for that, as they are. Whoever tries gets the same.
 */
export function* mergeLeaves(
  { span, neighbourhood }: Pick<ChimeShape, 'span' | 'neighbourhood'>,
  left: Slots,
  right: Slots,
  separator: Uint8Array,
): Operation<MergedLeaves> {
  const [few, many] = [countOf(left), countOf(right)].sort((a, b) => a - b);
  if (4 * (few + many) <= 3 * span) {
    const one = left.slice();
    const fits = entriesOf(right).every((entry) => placeIn(one, entry, neighbourhood));
    if (fits) return { leaves: [one], separators: [] };
  }
  if (2 * few < many) {
    const even = yield* shareOut(left, right, neighbourhood);
    if (even !== undefined) return even;
  }
  return { leaves: [left, right], separators: [separator] };
}

/** Half of the entries in each of two leaves, by their keys. */
function* shareOut(
  left: Slots,
  right: Slots,
  neighbourhood: number,
): Operation<MergedLeaves | undefined> {
  const keyed: { key: Uint8Array; entry: Entry }[] = [];
  for (const slots of [left, right]) {
    for (const { slot, key } of yield* readKeys(slots)) {
      keyed.push({ key, entry: entryAt(slots, slot) });
    }
  }
  keyed.sort((a, b) => compareWhole(a.key, b.key));
  const middle = keyed.length >>> 1;
  if (middle === 0) return undefined;
  const leaves = [new Int32Array(left.length), new Int32Array(left.length)];
  const fits = keyed.every(({ entry }, i) =>
    placeIn(leaves[i < middle ? 0 : 1], entry, neighbourhood),
  );
  if (!fits) return undefined;
  return { leaves, separators: [separatorOf(keyed[middle - 1].key, keyed[middle].key)] };
}

/** The same entries, each as near to its home as they come; as they are if that does not fit. */
export function compacted(slots: Slots, neighbourhood: number): Slots {
  const fresh = new Int32Array(slots.length);
  const fits = entriesOf(slots).every((entry) => placeIn(fresh, entry, neighbourhood));
  return fits ? fresh : slots;
}

export function countOf(slots: Slots): number {
  return entriesOf(slots).length;
}

function entriesOf(slots: Slots): Entry[] {
  const entries: Entry[] = [];
  for (let slot = 0; slot < slots.length / 2; slot++) {
    if (!isVacantAt(slots, slot)) entries.push(entryAt(slots, slot));
  }
  return entries;
}

function entryAt(slots: Slots, slot: number): Entry {
  const span = slots.length / 2;
  const high = slots[2 * slot + 1];
  return { low: slots[2 * slot], high, home: (slot - distanceOf(high) + span) % span };
}

/** Puts an entry into its neighbourhood, if hopping makes room for it. */
export function placeIn(slots: Slots, { low, high, home }: Entry, neighbourhood: number): boolean {
  const span = slots.length / 2;
  if (!makeRoom(slots, home, neighbourhood)) return false;
  let distance = 0;
  while (!isVacantAt(slots, (home + distance) % span)) distance++;
  const slot = (home + distance) % span;
  slots[2 * slot] = low;
  slots[2 * slot + 1] = withDistance(high, distance);
  return true;
}
