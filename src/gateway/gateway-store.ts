import type { StoreCalls } from '../store/calls/store-calls.ts';
import type { RemoteOperations } from '../store/remote/remote-store.ts';
import type { Operation } from '../verbs/index.ts';

/**
 * The calls that every store has as operations; commands run them. Open the store with
 * `values: 'bytes'`: replies are bytes, and another encoding would only cost a conversion there and
 * back.
 */
export type GatewayStore = Pick<Calls, keyof Calls & keyof RemoteOperations>;
type Calls = StoreCalls<Uint8Array>;

/** Runs an operation: to its end where verbs finish at once, otherwise it returns a promise. */
export interface GatewayPool {
  run<T>(operation: Operation<T>): T | Promise<T>;
}
