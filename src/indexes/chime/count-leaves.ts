import type { HalfOpenRange } from './key-range.ts';
import type { LeafPicture } from './leaf-walk.ts';
import { NO_HINT, type Part, partWithin } from './scan-plan.ts';
import { distanceOf, hintOf, isLive } from './slot.ts';

/** What the slots of a leaf tell of how many of its keys are in a range. */
export interface SlotCount {
  count: number;
  /** Entries that are to be counted by their keys; undefined for none. */
  open: Part | undefined;
}

/**
 * Counts the keys of a leaf in the range by its slots, as far as they tell: all of a leaf that is
 * in the range as a whole, else those whose hints are between those of the range's ends. Nothing is
 * counted so where two slots may be of one key, which was removed and came back while the leaf was
 * being read.
 */
export function countBySlots(leaf: LeafPicture, range: HalfOpenRange): SlotCount {
  const part = partWithin(leaf, range);
  if (part === undefined) return { count: 0, open: undefined };
  const { slots } = leaf;
  if (mayRepeat(slots)) return { count: 0, open: part };
  let count = 0;
  let read = 0;
  for (let i = 0; i < slots.length; i += 2) {
    if (!isLive(slots[i], slots[i + 1])) continue;
    const bit = 1 << hintOf(slots[i + 1]);
    if ((part.inside & bit) !== 0) count++;
    else read |= part.read & bit;
  }
  return { count, open: read === 0 ? undefined : { ...part, read } };
}

/** Slots of one key have its home and its fingerprint in common, and its hint if both have one. */
function mayRepeat(slots: Int32Array): boolean {
  const span = slots.length / 2;
  const hintsOf = new Map<number, number>();
  for (let slot = 0; slot < span; slot++) {
    const high = slots[2 * slot + 1];
    if (!isLive(slots[2 * slot], high)) continue;
    const home = (slot - distanceOf(high) + span) % span;
    const name = home * 256 + (high >>> 24);
    const alike = hintsOf.get(name) ?? 0;
    const bit = 1 << hintOf(high);
    if (alike !== 0 && (bit === NO_HINT || (alike & (bit | NO_HINT)) !== 0)) return true;
    hintsOf.set(name, alike | bit);
  }
  return false;
}
