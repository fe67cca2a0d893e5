import type { Batch } from './batch.ts';
import type { Fabric } from './fabric.ts';
import type { Operation } from './operation.ts';

/**
 * All generators share one `next`. Calling it directly spares a look-up that no inline cache can
 * serve, because every kind of operation has a prototype of its own.
 */
const { next } = Object.getPrototypeOf(
  Object.getPrototypeOf((function* () {})()),
) as Operation<unknown>;

export function advance<T>(operation: Operation<T>): IteratorResult<Batch, T> {
  return next.call(operation) as IteratorResult<Batch, T>;
}

/** Runs one operation to its end on a fabric whose verbs finish at once. */
export function run<T>(fabric: Fabric, operation: Operation<T>): T {
  let step = advance(operation);
  while (!step.done) {
    try {
      fabric.execute(step.value);
    } catch (error) {
      // The operation hears of it, so that it can give back what it holds.
      step = operation.throw(error);
      continue;
    }
    step = advance(operation);
  }
  return step.value;
}

/**
 * Runs independent operations interleaved: every round collects one batch of each and executes them
 * together, so that their cache misses (or network round trips) overlap. Its lists are reused.
 */
export class Interleaver {
  readonly #batches: Batch[] = [];
  readonly #live: number[] = [];
  /** What the last batch of each operation that is still running failed with. */
  readonly #errors: unknown[] = [];

  /**
   * `results[i]` is what operation i returned. A failing operation does not stop the others; when
   * all have ended the first error is returned, and the results of the failed ones are undefined.
   */
  run<T>(
    fabric: Fabric,
    operations: readonly Operation<T>[],
    count: number,
    results: (T | undefined)[],
  ): { error: unknown } | undefined {
    let failure: { error: unknown } | undefined;
    const live = this.#live;
    for (let i = 0; i < count; i++) {
      live[i] = i;
      this.#errors[i] = undefined;
    }
    for (let running = count; running > 0; ) {
      let waiting = 0;
      for (let i = 0; i < running; i++) {
        const index = live[i];
        results[index] = undefined;
        try {
          const error = this.#errors[i];
          const operation = operations[index];
          const step = error === undefined ? advance(operation) : operation.throw(error);
          if (step.done) {
            results[index] = step.value;
          } else {
            this.#batches[waiting] = step.value;
            live[waiting++] = index;
          }
        } catch (error) {
          failure ??= { error };
        }
      }
      running = waiting;
      if (running > 0) fabric.executeAll(this.#batches, running, this.#errors);
    }
    return failure;
  }
}

/** Runs independent operations interleaved, once; see Interleaver. */
export function runInterleaved<T>(
  fabric: Fabric,
  operations: readonly Operation<T>[],
  results: (T | undefined)[],
): { error: unknown } | undefined {
  return new Interleaver().run(fabric, operations, operations.length, results);
}
