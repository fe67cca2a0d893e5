import { StepwellError } from '../../errors.ts';
import { sizeClassOf } from '../../records/layout.ts';
import { type Address, UNIT_BYTES } from '../../verbs/index.ts';
import { NEIGHBOURHOOD_MAX } from './slot.ts';

/** Parameters of a CHIME tree; kept in the catalog. */
export interface ChimeShape {
  /** Entries of a leaf. */
  span: number;
  /** Entries in which a key may stand, from its home on. */
  neighbourhood: number;
  /** Children of an internal node, at most. */
  fanout: number;
  /** KiB of internal nodes that a client remembers. */
  cacheKiB: number;
  /** Keys in a client's hotspot buffer; 0 for none. */
  hotspots: number;
  /** Seed of the key hash and of the nodes' identities. */
  seed: number;
}

const SPAN_MAX = 1024;
const FANOUT_MAX = 1024;
const CACHE_KIB = 64 * 1024;
const CACHE_KIB_MAX = 16 * 2 ** 20;
const HOTSPOTS_MAX = 2 ** 24;
/** Records have every smaller size. */
const UNITS_LEAST = 9;

/** leaf: 0 identity, or the link to what replaced it; 8 the slots, 8 bytes each */
export const SLOTS_AT = 8;

/** The hopscotch leaf (CHIME section 4.1). */
export class ChimeGeometry {
  readonly shape: ChimeShape;
  readonly leafBytes: number;
  readonly leafUnits: number;
  readonly neighbourhoodBytes: number;
  readonly #scale: number;

  constructor(shape: ChimeShape) {
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

  slotAddress(leaf: Address, slot: number): Address {
    return leaf + SLOTS_AT + 8 * slot;
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

export function chimeShape(
  wishes: {
    span?: number;
    neighbourhood?: number;
    fanout?: number;
    cacheKiB?: number;
    hotspots?: number;
  },
  seed: number,
): ChimeShape {
  const span = inRange('span', wishes.span ?? 64, 2, SPAN_MAX);
  const most = Math.min(NEIGHBOURHOOD_MAX, span);
  const neighbourhood = inRange(
    'neighbourhood',
    wishes.neighbourhood ?? Math.min(8, most),
    2,
    most,
  );
  const fanout = inRange('fanout', wishes.fanout ?? 64, 2, FANOUT_MAX);
  const cacheKiB = inRange('cacheKiB', wishes.cacheKiB ?? CACHE_KIB, 1, CACHE_KIB_MAX);
  const hotspots = inRange('hotspots', wishes.hotspots ?? 0, 0, HOTSPOTS_MAX);
  return { span, neighbourhood, fanout, cacheKiB, hotspots, seed };
}

function inRange(name: string, value: number, low: number, high: number): number {
  if (Number.isInteger(value) && value >= low && value <= high) return value;
  throw new StepwellError('SW_INVALID_ARGUMENT', `${name} must be ${low}..${high}, not ${value}`);
}
