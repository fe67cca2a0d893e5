import type { Key } from '../../api.ts';
import type { RangeBounds } from '../../ordered-api.ts';
import { keyBytes } from './key-range.ts';

/** The keys that begin with `prefix`, itself among them. Raises SW_INVALID_KEY. */
export function prefixRange(prefix: Key): RangeBounds {
  const gte = keyBytes(prefix);
  let end = gte.length;
  while (end > 0 && gte[end - 1] === 0xff) end--;
  if (end === 0) return { gte };
  const lt = gte.slice(0, end);
  lt[end - 1]++;
  return { gte, lt };
}
