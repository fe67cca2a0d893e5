import type { Encoding, PoolHandle } from './api.ts';
import type { Lifetime } from './calls/expiry.ts';

/** What a store in memory knows of how it was opened. */
export interface StoreSettings {
  name: string;
  url: string;
  handle: PoolHandle;
  keys: Encoding;
  values: Encoding;
  lifetime: Lifetime | undefined;
  /** Called once, when the store is closed. */
  onClose: () => void;
}

/** What a store over a network knows of how it was opened. */
export interface RemoteSettings {
  name: string;
  /** The pool, without the store. */
  url: string;
  keys: Encoding;
  values: Encoding;
  lifetime: Lifetime | undefined;
  delegation: boolean;
}
