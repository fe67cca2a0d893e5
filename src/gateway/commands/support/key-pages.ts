import type { Key } from '../../../store/api.ts';
import type { RangeBounds } from '../../../store/ordered-api.ts';
import type { GatewayStore } from '../../gateway-store.ts';

/** Keys of a page: each has up to 64 KiB. */
export const PAGE_KEYS = 256;

/**
 * The keys of a range in order, some at a time: never all of them are in memory, also where the
 * store answers from another thread. Ends after `limit` keys.
 */
export function* keyPages(
  store: GatewayStore,
  bounds: RangeBounds,
  { reverse = false, limit = Number.POSITIVE_INFINITY } = {},
): Generator<Key[]> {
  let rest = bounds;
  for (let left = limit; left > 0; ) {
    const wanted = Math.min(left, PAGE_KEYS);
    const keys = [...store.keys({ ...rest, reverse, limit: wanted })];
    if (keys.length > 0) yield keys;
    if (keys.length < wanted) return;
    left -= keys.length;
    rest = beyond(rest, keys[keys.length - 1], reverse);
  }
}

function beyond({ gte, gt, lte, lt }: RangeBounds, key: Key, reverse: boolean): RangeBounds {
  return reverse ? { gte, gt, lt: key } : { gt: key, lte, lt };
}
