import { distanceOf, isVacant, withDistance } from './slot.ts';

/** A leaf's slots outside of the pool: two halves a slot. */
export type Slots = Int32Array;

/**
 * Makes one of the first `neighbourhood` slots from `home` on empty by hopping (CHIME section 2.3):
 * the first empty slot further on is brought nearer, each time by the farthest hop that leaves the
 * entry in its own neighbourhood. False, and maybe some harmless hops done, when that is
 * impossible.
 */
export function makeRoom(slots: Slots, home: number, neighbourhood: number): boolean {
  const span = slots.length / 2;
  let away = 0;
  for (let slot = home; away < span && !isVacantAt(slots, slot); away++) {
    slot = slot + 1 === span ? 0 : slot + 1;
  }
  if (away === span) return false;
  while (away >= neighbourhood) {
    const hop = farthestHop(slots, (home + away) % span, neighbourhood);
    if (hop === 0) return false;
    away -= hop;
  }
  return true;
}

/** Moves an entry into the empty slot from up to H - 1 slots before; how far it hopped, or 0. */
function farthestHop(slots: Slots, empty: number, neighbourhood: number): number {
  const span = slots.length / 2;
  for (let hop = neighbourhood - 1; hop > 0; hop--) {
    const from = (empty - hop + span) % span;
    const distance = distanceOf(slots[2 * from + 1]) + hop;
    if (isVacantAt(slots, from) || distance >= neighbourhood) continue;
    slots[2 * empty] = slots[2 * from];
    slots[2 * empty + 1] = withDistance(slots[2 * from + 1], distance);
    slots[2 * from] = 0;
    slots[2 * from + 1] = 0;
    return hop;
  }
  return 0;
}

/** Puts an entry as near to its home as it comes, if hopping makes room for it. */
export function placeAt(
  slots: Slots,
  low: number,
  high: number,
  home: number,
  neighbourhood: number,
): boolean {
  if (!makeRoom(slots, home, neighbourhood)) return false;
  const span = slots.length / 2;
  let slot = home;
  let distance = 0;
  for (; !isVacantAt(slots, slot); distance++) slot = slot + 1 === span ? 0 : slot + 1;
  slots[2 * slot] = low;
  slots[2 * slot + 1] = withDistance(high, distance);
  return true;
}

/** The first slot of the neighbourhood of the entry in a slot. */
export function homeAt(slots: Slots, slot: number): number {
  const home = slot - distanceOf(slots[2 * slot + 1]);
  return home < 0 ? home + slots.length / 2 : home;
}

export function countOf(slots: Slots): number {
  let count = 0;
  for (let i = 0; i < slots.length; i += 2) if (!isVacant(slots[i], slots[i + 1])) count++;
  return count;
}

export function isVacantAt(slots: Slots, slot: number): boolean {
  return isVacant(slots[2 * slot], slots[2 * slot + 1]);
}
