import { StepwellError } from '../errors.ts';
import { ALWAYS, type Index } from '../indexes/contract.ts';
import type { Request } from '../indexes/request.ts';
import type { Pool } from '../pool/pool.ts';
import type { Key, Value } from './api.ts';
import type { FirstVersions } from './first-versions.ts';
import type { FullPool } from './full-pool.ts';
import { PIPELINE_WIDTH, Pipeline } from './pipeline.ts';

/** What is no list, a Set say, would be taken for an empty one. Raises SW_INVALID_ARGUMENT. */
export function checkKeys(keys: readonly Key[]): void {
  if (!Array.isArray(keys)) throw new StepwellError('SW_INVALID_ARGUMENT', 'keys are an array');
}

/** Raises SW_INVALID_ARGUMENT. */
export function checkEntries(entries: Iterable<unknown> | AsyncIterable<unknown>): void {
  if (typeof entries === 'object' && entries !== null) {
    if (Symbol.iterator in entries || Symbol.asyncIterator in entries) return;
  }
  throw new StepwellError('SW_INVALID_ARGUMENT', 'entries are pairs of key and value, iterable');
}

/** Raises SW_INVALID_ARGUMENT. */
export function checkEntry(entry: readonly [Key, Value]): void {
  if (Array.isArray(entry)) return;
  throw new StepwellError('SW_INVALID_ARGUMENT', 'an entry is a pair of key and value');
}

/** What the calls on many keys share with those on one. */
export interface ManyHost<V> {
  readonly full: FullPool;
  readonly versions: FirstVersions;
  /** Raises SW_CLOSED; begins an operation, which ends with `pool.exit()`. */
  enter(): void;
  foundValue(request: Request): V;
}

/** The batch calls of a store: operations on many keys, interleaved. */
export class ManyKeys<V extends Value> {
  readonly #pool: Pool;
  readonly #index: Index;
  readonly #host: ManyHost<V>;
  readonly #pipelines: Pipeline[] = [];

  constructor(pool: Pool, index: Index, host: ManyHost<V>) {
    this.#pool = pool;
    this.#index = index;
    this.#host = host;
  }

  /** The values of the first keys: as many as have `maxBytes` together, or one that has more. */
  get(keys: readonly Key[], maxBytes: number): (V | undefined)[] {
    checkKeys(keys);
    const values: (V | undefined)[] = new Array(keys.length);
    let left = maxBytes;
    let done = 0;
    this.#rounds(keys, (pipeline, count, first) => {
      const found = pipeline.search(count);
      for (let i = 0; i < count; i++, done++) {
        const request = pipeline.request(i);
        if (found[i]) left -= request.foundValueBytes;
        if (left < 0 && done > 0) return false;
        values[first + i] = found[i] ? this.#host.foundValue(request) : undefined;
        // A value of many blocks was put together in memory of its own: never 32 at once.
        pipeline.release(i);
      }
      return true;
    });
    values.length = done;
    return values;
  }

  delete(keys: readonly Key[]): number {
    checkKeys(keys);
    let removed = 0;
    this.#rounds(keys, (pipeline, count) => {
      for (let i = 0; i < count; i++) pipeline.prepare(i, this.#index.remove(pipeline.request(i)));
      const failure = pipeline.run(count);
      for (let i = 0; i < count; i++) if (pipeline.result(i)) removed++;
      if (failure) throw failure.error;
      return true;
    });
    return removed;
  }

  /**
   * Calls `round` for every PIPELINE_WIDTH keys, which are then in the pipeline's requests, until
   * it returns false.
   */
  #rounds(
    keys: readonly Key[],
    round: (pipeline: Pipeline, count: number, first: number) => boolean,
  ): void {
    const pipeline = this.#pipelines.pop() ?? new Pipeline(this.#pool, this.#index);
    let more = true;
    for (let first = 0; more && first < keys.length; first += PIPELINE_WIDTH) {
      const count = Math.min(PIPELINE_WIDTH, keys.length - first);
      more = this.#host.full.retry(() => {
        this.#host.enter();
        try {
          pipeline.setKeys(keys, first, count);
          return round(pipeline, count, first);
        } finally {
          this.#pool.exit();
        }
      }, 'deletion');
    }
    this.#pipelines.push(pipeline);
  }

  /** An entry that is refused ends it; entries before may have been stored. */
  put(entries: Iterable<readonly [Key, Value]>): void {
    checkEntries(entries);
    const { records } = this.#index;
    const pipeline = this.#pipelines.pop() ?? new Pipeline(this.#pool, this.#index);
    let count = 0;
    for (const entry of entries) {
      checkEntry(entry);
      const [key, value] = entry;
      const request = pipeline.request(count);
      records.encode(request, key, value, this.#index.hashSeed, this.#host.versions.next());
      // Interleaved operations have no order: a key that comes again waits for the next round.
      if (pipeline.repeatsKey(count)) {
        this.#putRound(pipeline, count);
        pipeline.exchange(0, count);
        count = 0;
      }
      if (++count < PIPELINE_WIDTH) continue;
      this.#putRound(pipeline, count);
      count = 0;
    }
    if (count > 0) this.#putRound(pipeline, count);
    this.#pipelines.push(pipeline);
  }

  /**
   * When the pool is full, only what has not taken effect is repeated: others may write meanwhile.
   */
  #putRound(pipeline: Pipeline, count: number): void {
    let left = count;
    this.#host.full.retry(() => {
      this.#host.enter();
      try {
        for (let i = 0; i < left; i++) {
          pipeline.prepare(i, this.#index.write(pipeline.request(i), ALWAYS));
        }
        const failure = pipeline.run(left);
        const round = left;
        left = 0;
        for (let i = 0; i < round; i++) {
          if (pipeline.result(i) !== undefined) pipeline.release(i);
          else pipeline.exchange(i, left++);
        }
        if (failure) throw failure.error;
      } finally {
        this.#pool.exit();
      }
    });
  }
}
