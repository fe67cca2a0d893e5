import { LeafGeometry, type LeafShape, leafShape } from '../substrates/leaf/layout.ts';
import { inRange } from '../substrates/parameters.ts';

/** Parameters of a hopscotch hash table; kept in the catalog. */
export interface HopscotchShape extends LeafShape {
  /** Suffix bits of the directory at creation. */
  initialDepth: number;
  /** Suffix bits for which directory space is reserved. */
  maxDepth: number;
}

/** Hash word 1 gives the suffix. */
const DEPTH_MAX = 24;

/** The segments of a hopscotch hash table. */
export class HopscotchGeometry extends LeafGeometry<HopscotchShape> {}

export function hopscotchShape(
  wishes: Partial<Omit<HopscotchShape, 'seed'>>,
  poolBytes: number,
  seed: number,
): HopscotchShape {
  const leaf = leafShape(wishes, seed);
  const { leafBytes } = new LeafGeometry(leaf);
  // A level more than a pool of half empty segments could use.
  const segments = (2 * poolBytes) / leafBytes;
  const reachable = Math.min(DEPTH_MAX, Math.max(4, Math.ceil(Math.log2(segments)) + 1));
  const maxDepth = inRange('maxDepth', wishes.maxDepth ?? reachable, 0, DEPTH_MAX);
  const first = wishes.initialDepth ?? Math.min(1, maxDepth);
  const initialDepth = inRange('initialDepth', first, 0, maxDepth);
  return { ...leaf, initialDepth, maxDepth };
}
