import type { Operation } from '../../verbs/index.ts';
import { countOf, homeAt, isVacantAt, placeAt, type Slots } from './hopscotch.ts';
import { compareWhole, separatorOf } from './keys.ts';
import type { LeafClient } from './leaf-client.ts';
import { readKeys, withoutHints } from './leaf-entries.ts';

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
 * else, where hopping does not find room for that, as they are. Whoever tries gets the same. Where
 * the borders are others, the hints are forgotten: an update, or the next split, knows them again.
 */
export function* mergeLeaves(
  tree: LeafClient,
  left: Slots,
  right: Slots,
  separator: Uint8Array,
): Operation<MergedLeaves> {
  const { span, neighbourhood } = tree.geometry.shape;
  const [few, many] = [countOf(left), countOf(right)].sort((a, b) => a - b);
  if (4 * (few + many) <= 3 * span) {
    const one = withoutHints(left);
    const fits = entriesOf(withoutHints(right)).every((entry) =>
      placeIn(one, entry, neighbourhood),
    );
    if (fits) return { leaves: [one], separators: [] };
  }
  if (2 * few < many) {
    const even = yield* shareOut(tree, left, right);
    if (even !== undefined) return even;
  }
  return { leaves: [left, right], separators: [separator] };
}

/** Half of the entries in each of two leaves, by their keys. */
function* shareOut(
  tree: LeafClient,
  left: Slots,
  right: Slots,
): Operation<MergedLeaves | undefined> {
  const { neighbourhood } = tree.geometry.shape;
  const keyed: { key: Uint8Array; entry: Entry }[] = [];
  for (const slots of [left, right]) {
    const bare = withoutHints(slots);
    for (const { slot, key } of yield* readKeys(tree, slots)) {
      keyed.push({ key, entry: entryAt(bare, slot) });
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

function entriesOf(slots: Slots): Entry[] {
  const entries: Entry[] = [];
  for (let slot = 0; slot < slots.length / 2; slot++) {
    if (!isVacantAt(slots, slot)) entries.push(entryAt(slots, slot));
  }
  return entries;
}

function entryAt(slots: Slots, slot: number): Entry {
  return { low: slots[2 * slot], high: slots[2 * slot + 1], home: homeAt(slots, slot) };
}

/** Puts an entry into its neighbourhood, if hopping makes room for it. */
export function placeIn(slots: Slots, { low, high, home }: Entry, neighbourhood: number): boolean {
  return placeAt(slots, low, high, home, neighbourhood);
}
