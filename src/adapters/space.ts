import { type AnyStore, promised } from '../helpers/host.ts';
import type { AsyncStore, Encoding, Key, NamespaceOptions } from '../store/api.ts';
import type { ValueCodec, ValueFormat } from '../store/key-value.ts';

/** The formats that an adapter's values can have: the same as a store's. */
export type AdapterValues<V> = ValueFormat | ValueCodec<V>;

/**
 * The namespace that an adapter keeps its records in, with the adapter's own format. Raises
 * SW_INVALID_ARGUMENT if `store` is not a store, and SW_INVALID_KEY for a bad prefix.
 */
export function spaceOf<V>(
  store: AnyStore,
  prefix: string,
  options: NamespaceOptions & { values: Encoding | AdapterValues<V> },
): AsyncStore<V, Key, V> {
  const isText = options.values === 'utf8' || options.values === 'auto';
  // Callers of other libraries change the objects that they get, so they must not share one.
  const own = isText ? options : { ...options, nearCache: 0 };
  return promised(store).namespace<V>(
    prefix,
    own as NamespaceOptions & { values: AdapterValues<V> },
  );
}

/** An adapter's keys are text, whatever the store's option `keys` says. */
export function textOf(key: Key): string {
  return typeof key === 'string' ? key : Buffer.from(key).toString();
}
