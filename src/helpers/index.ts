export type { Job } from './held-job.ts';
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
export {
  type AddedJob,
  type AddOptions,
  type DeadLetter,
  type JobCounts,
  type Queue,
  type QueueOptions,
  queue,
} from './queue.ts';
export { type GetOrSetOptions, getOrSet, type Load } from './single-flight.ts';
export type { WaitOptions } from './waiting.ts';
export { type Change, type Watched, type WatchOptions, watch } from './watch.ts';
