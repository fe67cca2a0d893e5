import type { OpenOptions, PoolHandle } from './api.ts';

type Place = string | PoolHandle;

/** What a store gives as its handle. */
export type HandleObject = Exclude<PoolHandle, string>;

/** The pool alone: the buffers of a `memory:` pool, else what should be a URL. */
export function poolOf(place: Place): readonly SharedArrayBuffer[] | string {
  if (typeof place !== 'object' || place === null) return place;
  return 'memory' in place ? place.memory : place.url;
}

/**
 * The options, for the store that a handle is of unless they name another one. That store was
 * there: an empty one in its place, perhaps of another index, would hide that it was dropped.
 */
export function optionsFor(place: Place, options: OpenOptions): OpenOptions {
  const store = typeof place === 'object' && place !== null ? place.store : undefined;
  if (store === undefined || options.store !== undefined) return options;
  return { ...options, store, create: options.create ?? false };
}
