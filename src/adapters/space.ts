import { type AnyStore, promised } from '../helpers/host.ts';
import type { AsyncStore, Encoding, Key, NamespaceOptions } from '../store/api.ts';
import type { ValueCodec, ValueFormat } from '../store/key-value.ts';

/** How an adapter's values are stored: as those of a store. */
export type AdapterValues<V> = ValueFormat | ValueCodec<V>;

/**
 * The records that an adapter keeps: those whose keys begin with the prefix, in a format of its
 * own. Raises SW_INVALID_ARGUMENT for what is no store, SW_INVALID_KEY.
 */
export function spaceOf<V>(
  store: AnyStore,
  prefix: string,
  options: NamespaceOptions & { values: Encoding | AdapterValues<V> },
): AsyncStore<V, Key, V> {
  const isText = options.values === 'utf8' || options.values === 'auto';
  // Callers of other libraries change the objects that they get: each gets its own.
  const own = isText ? options : { ...options, nearCache: 0 };
  return promised(store).namespace<V>(
    prefix,
    own as NamespaceOptions & { values: AdapterValues<V> },
  );
}

/** The keys of adapters are text, whatever the option `keys` of the store says. */
export function textOf(key: Key): string {
  return typeof key === 'string' ? key : Buffer.from(key).toString();
}
