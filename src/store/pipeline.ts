import type { Index } from '../indexes/contract.ts';
import type { Request } from '../indexes/request.ts';
import type { Pool } from '../pool/pool.ts';
import { Batch, Interleaver, type Operation } from '../verbs/index.ts';
import type { Key } from './api.ts';

/** Operations that the batch forms keep in flight together. */
export const PIPELINE_WIDTH = 32;
/** Scratch memory of a request that is kept for the next operation, at most. */
export const KEPT_REQUEST_BYTES = 1024 * 1024;

/** Requests of operations that run interleaved, kept for the next round. */
export class Pipeline {
  readonly #pool: Pool;
  readonly #index: Index;
  readonly #interleaver = new Interleaver();
  readonly #requests: Request[] = [];
  readonly #operations: Operation<unknown>[] = [];
  readonly #results: unknown[] = [];
  readonly #batch = new Batch();
  readonly #found: boolean[] = [];

  constructor(pool: Pool, index: Index) {
    this.#pool = pool;
    this.#index = index;
  }

  request(i: number): Request {
    this.#requests[i] ??= this.#index.newRequest();
    return this.#requests[i];
  }

  /** Keeps request `i` for the next round, or makes room for a new one. */
  release(i: number): void {
    if (!this.#requests[i].mayBeKept(KEPT_REQUEST_BYTES))
      this.#requests[i] = this.#index.newRequest();
  }

  /** Puts keys `first`.. into requests 0..count-1. */
  setKeys(keys: readonly Key[], first: number, count: number): void {
    touchKeys(keys, first, count);
    for (let i = 0; i < count; i++) this.request(i).setKey(keys[first + i], this.#index.hashSeed);
  }

  /** Makes operation `i` of the next round. It must use `request(i)`. */
  prepare(i: number, operation: Operation<unknown>): void {
    this.#operations[i] = operation;
  }

  /** Runs operations 0..count-1; the first error, if any failed. */
  run(count: number): { error: unknown } | undefined {
    return this.#interleaver.run(this.#pool.fabric, this.#operations, count, this.#results);
  }

  /** Searches for the keys of requests 0..count-1; tells which of them are present. */
  search(count: number): readonly boolean[] {
    this.#pool.run(this.#index.searchMany(this.#requests, count, this.#batch, this.#found));
    return this.#found;
  }

  /** What operation `i` returned; undefined when it failed. */
  result<T>(i: number): T | undefined {
    return this.#results[i] as T | undefined;
  }

  /** Whether the key of request `i` is, as far as its hash tells, that of an earlier request. */
  repeatsKey(i: number): boolean {
    const { h1, h2 } = this.#requests[i].hash;
    for (let j = 0; j < i; j++) {
      const other = this.#requests[j].hash;
      if (other.h1 === h1 && other.h2 === h2) return true;
    }
    return false;
  }

  /** Exchanges two requests: what was prepared as `i` becomes `j`. */
  exchange(i: number, j: number): void {
    const request = this.#requests[i];
    this.#requests[i] = this.#requests[j];
    this.#requests[j] = request;
  }
}

/** Reads a bit of every key first, so that the cache misses of strings that lie apart overlap. */
function touchKeys(keys: readonly Key[], first: number, count: number): number {
  let sum = 0;
  for (let i = first; i < first + count; i++) {
    const key = keys[i];
    if (typeof key === 'string') sum += key.charCodeAt(0) | 0;
  }
  return sum;
}
