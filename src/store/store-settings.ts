import type { Encoding, Key, NamespaceOptions, PoolHandle, ValueFormat } from './api.ts';
import { checkOptions } from './arguments.ts';
import { type Lifetime, lifetimeOf } from './calls/expiry.ts';
import { Namespace } from './calls/namespace.ts';
import type { AnyCodec } from './open-options.ts';
import { type Format, formatOf } from './values.ts';

/** What the calls of a store or of a namespace go by. */
interface Defaults {
  keys: Encoding;
  values: Format;
  lifetime: Lifetime | undefined;
  readOnly?: boolean | undefined;
  namespace?: Namespace | undefined;
}

/** What a store in memory knows of how it was opened. */
export interface StoreSettings extends Defaults {
  name: string;
  url: string;
  handle: PoolHandle;
  /** Called once, when the store is closed. */
  onClose: () => void;
}

/** What a store over a network knows of how it was opened. */
export interface RemoteSettings extends Defaults {
  name: string;
  /** The pool, without the store. */
  url: string;
  delegation: boolean;
  /** Of a view: whether its `close` closes the store that it is a view of. */
  closesStore?: boolean;
  /** Ends the calls of this handle. */
  signal?: AbortSignal | undefined;
}

/** Options of `namespace`, whichever values it has. */
export type AnyNamespaceOptions = NamespaceOptions & {
  values?: Encoding | ValueFormat | AnyCodec;
};

/**
 * The settings of a namespace in the store of these settings. Raises SW_INVALID_ARGUMENT and
 * SW_INVALID_KEY.
 */
export function inNamespace<S extends Defaults>(
  settings: S,
  prefix: Key,
  options: AnyNamespaceOptions = {},
): S {
  checkOptions(options, ['ttlMs', 'sliding', 'values']);
  const { ttlMs = settings.lifetime?.ttlMs, sliding = settings.lifetime?.sliding } = options;
  return {
    ...settings,
    values: options.values === undefined ? settings.values : formatOf(options.values),
    lifetime: lifetimeOf({ ttlMs, sliding: ttlMs === Number.POSITIVE_INFINITY ? false : sliding }),
    namespace: new Namespace(prefix, settings.namespace),
  };
}
