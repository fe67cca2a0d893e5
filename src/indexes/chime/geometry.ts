import { sizeClassOf } from '../../records/layout.ts';
import { UNIT_BYTES } from '../../verbs/index.ts';
import { LeafGeometry, type LeafShape, leafShape } from '../substrates/leaf/layout.ts';
import { inRange } from '../substrates/parameters.ts';

/** Parameters of a CHIME tree; kept in the catalog. */
export interface ChimeShape extends LeafShape {
  /** Children of an internal node, at most. */
  fanout: number;
  /** KiB of internal nodes that a client remembers. */
  cacheKiB: number;
}

const FANOUT_MAX = 1024;
const CACHE_KIB = 64 * 1024;
const CACHE_KIB_MAX = 16 * 2 ** 20;
/** Records use every smaller size. */
const UNITS_LEAST = 9;

/** The leaves of a CHIME tree: hopscotch leaves with replicas of their bounds. */
export class ChimeGeometry extends LeafGeometry<ChimeShape> {
  constructor(shape: ChimeShape) {
    super(shape, true, unitsBeside);
  }
}

/**
 * The smallest block size of at least this many units that no record uses. So the block size of a
 * chunk shows what it holds.
 */
export function unitsBeside(units: number): number {
  let beside = Math.max(UNITS_LEAST, units);
  while (sizeClassOf(beside) === beside) beside++;
  return beside;
}

/** Lines of a block for this many bytes. There are few sizes, because each needs its own chunks. */
export function unitsFor(bytes: number): number {
  return unitsBeside(2 ** Math.ceil(Math.log2(Math.ceil(bytes / UNIT_BYTES))));
}

export function chimeShape(wishes: Partial<Omit<ChimeShape, 'seed'>>, seed: number): ChimeShape {
  const leaf = leafShape(wishes, seed);
  const fanout = inRange('fanout', wishes.fanout ?? 64, 2, FANOUT_MAX);
  const cacheKiB = inRange('cacheKiB', wishes.cacheKiB ?? CACHE_KIB, 1, CACHE_KIB_MAX);
  return { ...leaf, fanout, cacheKiB };
}
