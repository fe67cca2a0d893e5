import type { Key } from '../../../store/api.ts';
import type { RangeBounds } from '../../../store/ordered-api.ts';
import type { Operation } from '../../../verbs/index.ts';
import type { GatewayStore } from '../../gateway-store.ts';

/** Keys of a page: each has up to 64 KiB. */
const PAGE_KEYS = 256;

/** The keys of a range in order, some at a time: never all of them are in memory. */
export class KeyPages {
  readonly #store: GatewayStore;
  readonly #reverse: boolean;
  #rest: RangeBounds;
  /** Keys that may still come. */
  #left: number;

  /** Without bounds there are none. */
  constructor(
    store: GatewayStore,
    bounds: RangeBounds | undefined,
    { reverse = false, limit = Number.POSITIVE_INFINITY } = {},
  ) {
    this.#store = store;
    this.#reverse = reverse;
    this.#rest = bounds ?? {};
    this.#left = bounds === undefined ? 0 : limit;
  }

  get done(): boolean {
    return this.#left === 0;
  }

  *next(): Operation<Key[]> {
    const wanted = Math.min(this.#left, PAGE_KEYS);
    const keys = yield* this.#store.keysIn(this.#rest, this.#reverse, wanted);
    this.#left = keys.length < wanted ? 0 : this.#left - wanted;
    const { gte, gt, lte, lt } = this.#rest;
    const last = keys[keys.length - 1];
    this.#rest = this.#reverse ? { gte, gt, lt: last } : { gt: last, lte, lt };
    return keys;
  }
}
