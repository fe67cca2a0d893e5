import { type InspectOptions, inspect } from 'node:util';
import type { Encoding, Key, NamespaceOptions, PoolHandle, ValueFormat } from './api.ts';
import { checkOptions } from './arguments.ts';
import { lifetimeOf } from './calls/expiry.ts';
import { Namespace } from './calls/namespace.ts';
import type { CallSettings } from './calls/record-access.ts';
import { nearSettingsOf } from './near/near-settings.ts';
import type { AnyCodec } from './open-options.ts';
import { formatOf } from './values.ts';

/** How a store in memory was opened. */
export interface StoreSettings extends CallSettings {
  url: string;
  handle: PoolHandle;
  /** Called once, when the store is closed. */
  onClose: () => void;
}

/** How a store over a network was opened. */
export interface RemoteSettings extends CallSettings {
  /** The pool, without the store. */
  url: string;
  /** Whether closing a view closes the store that it is a view of. */
  closesStore?: boolean;
  /** Aborts the calls of this handle. */
  signal?: AbortSignal | undefined;
}

/** Options of `namespace`, for any type of values. */
export type AnyNamespaceOptions = NamespaceOptions & {
  values?: Encoding | ValueFormat | AnyCodec;
};

/**
 * The settings of a namespace in the store of these settings. Raises SW_INVALID_ARGUMENT and
 * SW_INVALID_KEY.
 */
export function inNamespace<S extends CallSettings>(
  settings: S,
  prefix: Key,
  options: AnyNamespaceOptions = {},
): S {
  checkOptions(options, ['ttlMs', 'sliding', 'values', 'nearCache']);
  const { ttlMs = settings.lifetime?.ttlMs, sliding = settings.lifetime?.sliding } = options;
  return {
    ...settings,
    values: options.values === undefined ? settings.values : formatOf(options.values),
    near: options.nearCache === undefined ? settings.near : nearSettingsOf(options),
    lifetime: lifetimeOf({ ttlMs, sliding: ttlMs === Number.POSITIVE_INFINITY ? false : sliding }),
    namespace: new Namespace(prefix, settings.namespace),
  };
}

/** The output of `console.log(store)`: facts that need no look at the pool. */
export function inspected(
  kind: string,
  { url, name }: { url: string; name: string },
  index: string,
  closed: boolean,
  options: InspectOptions,
): string {
  return `${kind} ${inspect({ url, store: name, index, closed }, options)}`;
}
