import type { Key, Store } from '../store/api.ts';
import type { RangeBounds, RangeOptions, ScanOptions } from '../store/ordered-api.ts';

/**
 * The part of a store that the gateway calls. Open the store with `values: 'bytes'`: replies are
 * bytes, and any other encoding only costs a conversion there and back.
 */
export type GatewayStore = Pick<
  Store<Uint8Array>,
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
> & {
  /** These need an ordered index; others raise SW_UNSUPPORTED. */
  keys(range: ScanOptions): Iterable<Key>;
  count(bounds: RangeBounds): number;
  clear(range?: RangeOptions): void;
};
