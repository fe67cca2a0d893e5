import type { HalfOpenRange } from './key-range.ts';
import { compareWhole } from './keys.ts';
import type { LeafPicture } from './leaf-walk.ts';
import { distanceOf, isLive } from './slot.ts';

/**
 * How many keys a leaf has, by its slots alone; undefined when only its records tell: when not all
 * of its range counts, or when two slots may be of one key, which was removed and came back while
 * the leaf was being read.
 */
export function countBySlots(leaf: LeafPicture, range: HalfOpenRange): number | undefined {
  if (!isWithin(leaf, range)) return undefined;
  const { slots } = leaf;
  const span = slots.length / 2;
  const alike = new Set<number>();
  let count = 0;
  for (let slot = 0; slot < span; slot++) {
    const high = slots[2 * slot + 1];
    if (!isLive(slots[2 * slot], high)) continue;
    // Slots of one key have its home and its fingerprint in common.
    const home = (slot - distanceOf(high) + span) % span;
    alike.add(home * 256 + (high >>> 24));
    count++;
  }
  return alike.size === count ? count : undefined;
}

function isWithin({ lower, upper, isWhole }: LeafPicture, { from, to }: HalfOpenRange): boolean {
  if (!isWhole || compareWhole(from, lower) > 0) return false;
  return to === undefined || (upper !== undefined && compareWhole(upper, to) <= 0);
}
