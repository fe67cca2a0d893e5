import { sizeClassOf } from '../../records/layout.ts';
import { type Address, UNIT_BYTES } from '../../verbs/index.ts';
import { inRange } from '../substrates/parameters.ts';
import { NEIGHBOURHOOD_MAX } from './slot.ts';

/** Parameters of a leaf. */
export interface LeafShape {
  /** Entries of a leaf. */
  span: number;
  /** Entries in which a key may stand, from its home on. */
  neighbourhood: number;
  /** Keys in a client's hotspot buffer; 0 for none. */
  hotspots: number;
  /** Seed of the key hash and of the nodes' identities. */
  seed: number;
}

/** Parameters of a CHIME tree; kept in the catalog. */
export interface ChimeShape extends LeafShape {
  /** Children of an internal node, at most. */
  fanout: number;
  /** KiB of internal nodes that a client remembers. */
  cacheKiB: number;
  /** From how many per cent of its entries in use on a leaf is split and not hopped in. */
  splitAt: number;
}

const SPAN_MAX = 1024;
const FANOUT_MAX = 1024;
const CACHE_KIB = 64 * 1024;
const CACHE_KIB_MAX = 16 * 2 ** 20;
const SPLIT_AT = 75;
/** More than a leaf has: it is hopped in as long as that leads to an empty entry. */
const SPLIT_AT_MAX = 101;
const HOTSPOTS_MAX = 2 ** 24;
/** Records have every smaller size. */
const UNITS_LEAST = 9;

/** leaf: 0 identity, or the link to what replaced it; 8 the slots, 8 bytes each */
export const SLOTS_AT = 8;

/** The hopscotch leaf (CHIME section 4.1). */
export class LeafGeometry<S extends LeafShape = LeafShape> {
  readonly shape: S;
  readonly leafBytes: number;
  readonly leafUnits: number;
  readonly neighbourhoodBytes: number;
  readonly #scale: number;

  constructor(shape: S) {
    this.shape = shape;
    this.leafBytes = SLOTS_AT + 8 * shape.span;
    this.leafUnits = unitsBeside(Math.ceil(this.leafBytes / UNIT_BYTES));
    this.neighbourhoodBytes = 8 * shape.neighbourhood;
    this.#scale = shape.span / 2 ** 32;
  }

  /** The first entry of a key's neighbourhood, from hash word 2. */
  homeOf(h2: number): number {
    return ((h2 >>> 0) * this.#scale) | 0;
  }

  /** Whether a leaf with so many entries is split, not hopped in, for a full neighbourhood. */
  isCrowded(_entries: number): boolean {
    return false;
  }

  slotAddress(leaf: Address, slot: number): Address {
    return leaf + SLOTS_AT + 8 * slot;
  }
}

/** The leaves of a CHIME tree. */
export class ChimeGeometry extends LeafGeometry<ChimeShape> {
  /** Whether a leaf with so many entries is split when a neighbourhood of it is full. */
  override isCrowded(entries: number): boolean {
    const { span, splitAt } = this.shape;
    // Each half needs a key; others may have gone since a neighbourhood was seen to be full.
    return entries >= 2 && 100 * entries >= splitAt * span;
  }
}

/**
 * The least block of at least so many units that has a size of which no record is, so that one can
 * tell what the chunks of a pool are used for.
 */
export function unitsBeside(units: number): number {
  let beside = Math.max(UNITS_LEAST, units);
  while (sizeClassOf(beside) === beside) beside++;
  return beside;
}

/** Fingerprints are never 0, so that no empty slot matches one. */
export function fingerprintOf(h1: number): number {
  return h1 >>> 24 || 1;
}

export function leafShape(
  wishes: Partial<Pick<LeafShape, 'span' | 'neighbourhood' | 'hotspots'>>,
  seed: number,
): LeafShape {
  const span = inRange('span', wishes.span ?? 64, 2, SPAN_MAX);
  const most = Math.min(NEIGHBOURHOOD_MAX, span);
  const wanted = wishes.neighbourhood ?? most;
  const neighbourhood = inRange('neighbourhood', wanted, 2, most);
  const hotspots = inRange('hotspots', wishes.hotspots ?? 0, 0, HOTSPOTS_MAX);
  return { span, neighbourhood, hotspots, seed };
}

export function chimeShape(wishes: Partial<Omit<ChimeShape, 'seed'>>, seed: number): ChimeShape {
  const leaf = leafShape(wishes, seed);
  const fanout = inRange('fanout', wishes.fanout ?? 64, 2, FANOUT_MAX);
  const cacheKiB = inRange('cacheKiB', wishes.cacheKiB ?? CACHE_KIB, 1, CACHE_KIB_MAX);
  const splitAt = inRange('splitAt', wishes.splitAt ?? SPLIT_AT, 1, SPLIT_AT_MAX);
  return { ...leaf, fanout, cacheKiB, splitAt };
}
