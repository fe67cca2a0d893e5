import type { Batch, Fabric, Operation } from '../verbs/index.ts';
import type { Request } from './request.ts';

/** What an index can do beyond the contract; the conformance suite reads it. */
export interface IndexManifest {
  name: string;
  ordered: boolean;
  lockFreeReads: boolean;
  onlineResize: boolean;
}

/** When a write takes effect. */
export const ALWAYS = 0;
export const IF_ABSENT = 1;
export const IF_PRESENT = 2;
export const IF_VERSION = 3;
export type Condition = typeof ALWAYS | typeof IF_ABSENT | typeof IF_PRESENT | typeof IF_VERSION;

/** How a write ended. */
export const REFUSED = 0;
export const INSERTED = 1;
export const REPLACED = 2;
export type Outcome = typeof REFUSED | typeof INSERTED | typeof REPLACED;

export interface IndexShape {
  globalDepth: number;
  subtables: number;
  slots: number;
  records: number;
}

/**
 * Every index is written against this contract: operations on one key, linearizable per key. The
 * key is already in the request; results are left in it. `version` is the new record's version.
 */
export interface Index {
  readonly manifest: IndexManifest;
  /** Wishes the key's encoding to use. */
  readonly hashSeed: number;
  /** Idle requests to run operations with. */
  newRequest(): Request;
  /** Whether the key is present; the record is then the request's found one. */
  search(request: Request): Operation<boolean>;
  /**
   * What `search` would return, if its first attempt tells, on a fabric that executes at once; else
   * undefined, and `search` has to be run.
   */
  searchOnce(request: Request, fabric: Fabric): boolean | undefined;
  /**
   * Searches for the keys of requests 0..count-1 in doorbells that they share; `batch` is the
   * caller's to lend. `found[i]` becomes what `search` would return for request i.
   */
  searchMany(
    requests: readonly Request[],
    count: number,
    batch: Batch,
    found: boolean[],
  ): Operation<void>;
  /**
   * Stores the request's outgoing value under the condition; `expected` is the version for
   * IF_VERSION. With REPLACED, or REFUSED because of a present key, the old record is the found
   * one.
   */
  write(request: Request, condition: Condition, expected?: number): Operation<Outcome>;
  /** Removes the key; the removed record is the found one. */
  remove(request: Request): Operation<boolean>;
  /**
   * Replaces the value by what `compute` puts as the request's value, atomically; `compute` may run
   * several times. It reads the found record, or none when the key is absent (`present` false).
   */
  modify(request: Request, compute: (present: boolean) => void): Operation<Outcome>;
}
