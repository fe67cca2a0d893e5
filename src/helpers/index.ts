export type { AnyStore } from './host.ts';
export {
  type Lease,
  type LeaseOptions,
  lease,
  type SemaphoreOptions,
  semaphore,
  tryLease,
} from './lease.ts';
export {
  type FixedWindowOptions,
  fixedWindow,
  type Limiter,
  type TokenBucketOptions,
  tokenBucket,
  type Verdict,
} from './limiters.ts';
export { queue } from './queue.ts';
export type {
  AddedJob,
  AddOptions,
  DeadLetter,
  Job,
  JobCounts,
  Queue,
  QueueOptions,
} from './queue-api.ts';
export { type GetOrSetOptions, getOrSet, type Load } from './single-flight.ts';
export type { WaitOptions } from './waiting.ts';
export { type Change, type Watched, type WatchOptions, watch } from './watch.ts';
