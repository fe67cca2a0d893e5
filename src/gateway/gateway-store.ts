import type { StoreCalls } from '../store/calls/store-calls.ts';
import type { Operation } from '../verbs/index.ts';

/**
 * The part of a store that the gateway calls: each call is an operation, as the commands are. Open
 * the store with `values: 'bytes'`: replies are bytes, and any other encoding only costs a
 * conversion there and back.
 */
export type GatewayStore = Pick<
  StoreCalls<Uint8Array>,
  | 'name'
  | 'get'
  | 'getEntry'
  | 'has'
  | 'metadata'
  | 'set'
  | 'insert'
  | 'write'
  | 'expire'
  | 'compareAndSet'
  | 'compareAndDelete'
  | 'delete'
  | 'take'
  | 'increment'
  | 'getMany'
  | 'setMany'
  | 'deleteMany'
  | 'read'
  | 'size'
  | 'scanKeys'
  | 'stats'
  // These need an ordered index; others raise SW_UNSUPPORTED.
  | 'keysIn'
  | 'count'
  | 'clear'
>;

/** Runs operations: to their ends where verbs finish at once, else for promises. */
export interface GatewayPool {
  run<T>(operation: Operation<T>): T | Promise<T>;
}
