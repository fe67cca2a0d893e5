import { common, type HalfOpenRange, isEmpty } from './key-range.ts';
import { areSame } from './keys.ts';
import type { LeafPicture } from './leaf-walk.ts';
import { HINT_MAX, hintOf, isLive } from './slot.ts';

/** What is read of a leaf: entries whose hints are from `least` to `most`, or not known. */
export interface Part {
  leaf: LeafPicture;
  least: number;
  most: number;
}

/** What a step reads of its leaves, and what it need not read when that has been enough. */
export interface ScanPlan {
  parts: Part[];
  rest: Part[];
}

/**
 * Which entries of some leaves a step reads, in the order of the scan: only what can be in the
 * range, and of that no more than `limit` certainly needs. A hint that is that of a border of the
 * range leaves open on which side of it the key is; entries that have one of the hints in between
 * are in the range.
 */
export function planScan(
  leaves: readonly LeafPicture[],
  range: HalfOpenRange,
  limit: number,
  reverse: boolean,
  histogram: Int32Array,
): ScanPlan {
  const plan: ScanPlan = { parts: [], rest: [] };
  let certain = 0;
  for (const leaf of leaves) {
    const part = partWithin(leaf, range);
    if (part === undefined) continue;
    if (certain >= limit) {
      plan.rest.push(part);
      continue;
    }
    plan.parts.push(part);
    if (limit === Number.POSITIVE_INFINITY) continue;
    const count = countInside(part);
    if (certain + count >= limit) cutAt(plan, part, limit - certain, reverse, histogram);
    certain += count;
    // Of a leaf that is in the range as a whole, also entries whose hint is not known are.
    if (part.leastInside === 1 && part.mostInside === HINT_MAX) certain += countUnknown(leaf);
  }
  return plan;
}

/** Ends the part where enough entries of the leaf are certainly in the range. */
function cutAt(
  plan: ScanPlan,
  part: PartInside,
  enough: number,
  reverse: boolean,
  histogram: Int32Array,
): void {
  countHints(part.leaf, histogram);
  const step = reverse ? -1 : 1;
  let hint = reverse ? part.mostInside : part.leastInside;
  for (let count = histogram[hint]; count < enough; count += histogram[hint]) hint += step;
  cut(plan, part, hint, reverse);
}

interface PartInside extends Part {
  /** Hints of which all entries are in the range. */
  leastInside: number;
  mostInside: number;
}

/** What of a leaf can be in the range; undefined for nothing. */
function partWithin(leaf: LeafPicture, whole: HalfOpenRange): PartInside | undefined {
  const { lower, upper, scale, borders } = leaf;
  const range = common({ from: lower, to: upper }, whole);
  if (isEmpty(range)) return undefined;
  const part = { leaf, least: 1, most: HINT_MAX, leastInside: 1, mostInside: HINT_MAX };
  const { from, to } = range;
  if (!areSame(from, borders.lower)) {
    const hint = scale.hintOf(from, 0, from.length);
    part.least = hint || 1;
    part.leastInside = hint === 0 ? HINT_MAX + 1 : hint + 1;
  }
  if (to !== undefined && !areSame(to, borders.upper)) {
    const hint = scale.hintOf(to, 0, to.length);
    part.most = hint || HINT_MAX;
    part.mostInside = hint - 1;
  }
  return part;
}

/** The step reads up to a hint; what comes behind it in the leaf is for later. */
function cut(plan: ScanPlan, part: PartInside, hint: number, reverse: boolean): void {
  const { leaf, least, most } = part;
  if (reverse) {
    part.least = hint;
    if (hint > least) plan.rest.push({ leaf, least, most: hint - 1 });
  } else {
    part.most = hint;
    if (hint < most) plan.rest.push({ leaf, least: hint + 1, most });
  }
}

/** Entries that are certainly in the range. */
function countInside({ leaf: { slots }, leastInside, mostInside }: PartInside): number {
  let count = 0;
  for (let i = 0; i < slots.length; i += 2) {
    const high = slots[i + 1];
    const hint = hintOf(high);
    if (hint >= leastInside && hint <= mostInside && isLive(slots[i], high)) count++;
  }
  return count;
}

function countUnknown({ slots }: LeafPicture): number {
  let count = 0;
  for (let i = 0; i < slots.length; i += 2) {
    if (hintOf(slots[i + 1]) === 0 && isLive(slots[i], slots[i + 1])) count++;
  }
  return count;
}

/** How many entries of a leaf have each hint. */
function countHints({ slots }: LeafPicture, histogram: Int32Array): void {
  histogram.fill(0);
  for (let i = 0; i < slots.length; i += 2) {
    const high = slots[i + 1];
    if (isLive(slots[i], high)) histogram[hintOf(high)]++;
  }
}
