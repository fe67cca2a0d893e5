import type { AsyncStore, Key, Store } from '../store/api.ts';
import { invalid, shown } from '../store/arguments.ts';

/** A store or a namespace, synchronous or not. */
// biome-ignore lint/suspicious/noExplicitAny: most helpers are for stores of any values
export type AnyStore<V = any, W = any> = Store<V, Key, W> | AsyncStore<V, Key, W>;

/** The store with promises. Raises SW_INVALID_ARGUMENT for what is no store. */
export function promised<V, W>(store: AnyStore<V, W>): AsyncStore<V, Key, W> {
  const isStore = typeof store === 'object' && store !== null;
  const found = isStore && 'async' in store ? store.async : (store as AsyncStore<V, Key, W>);
  if (isStore && typeof found.changeState === 'function') return found;
  throw invalid(`a helper needs a store, not ${shown(store)}`);
}

/** Raises SW_UNSUPPORTED for a store over a network. */
export function synchronous<V, W>(store: AnyStore<V, W>): Store<V, Key, W> {
  return 'async' in store ? store : store.sync;
}

/** Raises SW_INVALID_ARGUMENT. */
export function checkPositive(name: string, value: unknown, isWhole = false): void {
  const isFine = typeof value === 'number' && value > 0 && Number.isFinite(value);
  if (isFine && (!isWhole || Number.isSafeInteger(value))) return;
  throw invalid(`${name} is ${isWhole ? 'a whole number' : 'a number'} above 0: ${shown(value)}`);
}

/** The names of leases and the like are strings. Raises SW_INVALID_ARGUMENT. */
export function checkName(name: unknown): void {
  if (typeof name === 'string') return;
  throw invalid(`a name is a string, not ${shown(name)}`);
}
