export { type ErrorCode, StepwellError } from './errors.ts';
export type * from './store/api.ts';
export { prefixRange } from './store/keys.ts';
export {
  check,
  checkSync,
  create,
  createSync,
  destroy,
  destroySync,
  dropStore,
  dropStoreSync,
  inspect,
  inspectSync,
  open,
  openSync,
} from './store/open.ts';
export type {
  CodecOptions,
  EncodedOptions,
  NearOptions,
  TextOptions,
  TypedOptions,
} from './store/open-options.ts';
export type * from './store/ordered-api.ts';
export { type CopyOptions, copyPool } from './store/pools/copy-pool.ts';
export { grow, growSync } from './store/pools/grow.ts';
export { listPools, type PoolListing } from './store/pools/list-pools.ts';
export {
  type MemoryNodeReport,
  type MemoryNodesOptions,
  type MemoryNodesReport,
  memoryNodes,
} from './store/remote/memory-nodes.ts';
export type * from './store/reports.ts';
