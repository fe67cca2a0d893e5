import { LeafGeometry, type LeafShape, leafShape } from '../chime/geometry.ts';
import { inRange } from '../substrates/parameters.ts';

/** Parameters of a hopscotch hash table; kept in the catalog. */
export interface HopscotchShape extends LeafShape {
  /** Suffix bits of the directory at creation. */
  initialDepth: number;
  /** Suffix bits for which directory space is reserved. */
  maxDepth: number;
}

/** Hash word 1 gives the suffix, and its highest 8 bits the fingerprint. */
const DEPTH_MAX = 24;

/** The segments of a hopscotch hash table: leaves of the tree. */
export class HopscotchGeometry extends LeafGeometry<HopscotchShape> {}

export function hopscotchShape(
  wishes: Partial<Omit<HopscotchShape, 'seed'>>,
  poolBytes: number,
  seed: number,
): HopscotchShape {
  const leaf = leafShape(wishes, seed);
  // A level more than a pool of half empty segments and their records could use.
  const segments = poolBytes / (36 * leaf.span);
  const reachable = Math.min(DEPTH_MAX, Math.max(4, Math.ceil(Math.log2(segments)) + 1));
  const maxDepth = inRange('maxDepth', wishes.maxDepth ?? reachable, 0, DEPTH_MAX);
  const first = wishes.initialDepth ?? Math.min(1, maxDepth);
  const initialDepth = inRange('initialDepth', first, 0, maxDepth);
  return { ...leaf, initialDepth, maxDepth };
}
