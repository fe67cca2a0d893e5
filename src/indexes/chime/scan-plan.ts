import { common, type HalfOpenRange, isEmpty } from './key-range.ts';
import { areSame } from './keys.ts';
import type { LeafPicture } from './leaf-walk.ts';
import { HINT_MAX, hintOf, isLive } from './slot.ts';

/** What is read of a leaf: entries whose hints are from `least` to `most`, or not known. */
export interface Part {
  readonly leaf: LeafPicture;
  readonly least: number;
  readonly most: number;
  /** Hints of which all entries are in the range: bit h for hint h, and bit 0 for no hint. */
  readonly inside: number;
  /** Hints whose entries are read, in the same way. */
  readonly read: number;
}

/** Posts the READs of a part's records; returns how many of them are certainly in the range. */
interface Poster {
  post(part: Part): number;
}

/**
 * Posts which entries of some leaves a step reads, in the order of the scan: only what can be in
 * the range, and of that no more than `limit` certainly needs. A hint that is that of a border of
 * the range leaves open on which side of it the key is; entries that have one of the hints in
 * between are in the range. They are counted while they are posted, but for the leaf that may have
 * more than enough of them. Returns what need not be read when what was posted has been enough.
 */
export function planScan(
  leaves: readonly LeafPicture[],
  range: HalfOpenRange,
  limit: number,
  reverse: boolean,
  histogram: Int32Array,
  reads: Poster,
): Part[] {
  const rest: Part[] = [];
  let certain = 0;
  for (const leaf of leaves) {
    const part = partWithin(leaf, range);
    if (part === undefined) continue;
    if (certain >= limit) {
      rest.push(part);
      continue;
    }
    const enough = limit - certain;
    const mayEnd = enough <= leaf.slots.length / 2;
    const last = mayEnd ? hintOfLast(part, enough, reverse, histogram) : 0;
    if (last === 0) {
      certain += reads.post(part);
    } else {
      const [first, behind] = cut(part, last, reverse);
      if (behind) rest.push(behind);
      reads.post(first);
      certain = limit;
    }
  }
  return rest;
}

/** The hint up to which so many entries are certainly in the range; 0 when the leaf has fewer. */
function hintOfLast(
  { leaf, inside }: Part,
  enough: number,
  reverse: boolean,
  histogram: Int32Array,
): number {
  countHints(leaf, histogram);
  const step = reverse ? -1 : 1;
  let count = 0;
  for (let hint = reverse ? HINT_MAX : 1; hint > 0 && hint <= HINT_MAX; hint += step) {
    if (((inside >>> hint) & 1) === 0) continue;
    count += histogram[hint];
    if (count >= enough) return hint;
  }
  return 0;
}

/** What of a leaf can be in the range; undefined for nothing. */
export function partWithin(leaf: LeafPicture, whole: HalfOpenRange): Part | undefined {
  const { lower, upper, scale, borders } = leaf;
  const range = common({ from: lower, to: upper }, whole);
  if (isEmpty(range)) return undefined;
  let [least, most, leastInside, mostInside] = [1, HINT_MAX, 1, HINT_MAX];
  const { from, to } = range;
  if (!areSame(from, borders.lower)) {
    const hint = scale.hintOf(from, 0, from.length);
    least = hint || 1;
    leastInside = hint === 0 ? HINT_MAX + 1 : hint + 1;
  }
  if (to !== undefined && !areSame(to, borders.upper)) {
    const hint = scale.hintOf(to, 0, to.length);
    most = hint || HINT_MAX;
    mostInside = hint - 1;
  }
  // Of a leaf that is in the range as a whole, also entries whose hint is not known are.
  const isWhole = leastInside === 1 && mostInside === HINT_MAX;
  const inside = isWhole ? ALL_HINTS : hintsBetween(leastInside, mostInside);
  return { leaf, least, most, inside, read: hintsBetween(least, most) | NO_HINT };
}

/** The bit of entries whose hint is not known. */
export const NO_HINT = 1;
const ALL_HINTS = -1;

/** The bits of the hints from one to another one. */
function hintsBetween(least: number, most: number): number {
  return least > most ? 0 : (-1 << least) & (-1 >>> (HINT_MAX - most));
}

/** The part up to a hint, in the order of the scan, and what comes behind it in the leaf. */
function cut(part: Part, hint: number, reverse: boolean): [Part, Part | undefined] {
  const { least, most } = part;
  return reverse
    ? [between(part, hint, most), hint > least ? between(part, least, hint - 1) : undefined]
    : [between(part, least, hint), hint < most ? between(part, hint + 1, most) : undefined];
}

function between({ leaf, inside }: Part, least: number, most: number): Part {
  return { leaf, least, most, inside, read: hintsBetween(least, most) | NO_HINT };
}

/** How many entries of a leaf have each hint. */
function countHints({ slots }: LeafPicture, histogram: Int32Array): void {
  histogram.fill(0);
  for (let i = 0; i < slots.length; i += 2) {
    const high = slots[i + 1];
    if (isLive(slots[i], high)) histogram[hintOf(high)]++;
  }
}
