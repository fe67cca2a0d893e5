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

function advance<T>(operation: Operation<T>): IteratorResult<Batch, T> {
  return next.call(operation) as IteratorResult<Batch, T>;
}

/** Runs one operation to its end on a fabric whose verbs finish at once. */
export function run<T>(fabric: Fabric, operation: Operation<T>): T {
  for (;;) {
    const step = advance(operation);
    if (step.done) return step.value;
    fabric.execute(step.value);
  }
}

/**
 * Runs independent operations interleaved: every round collects one batch of each and executes them
 * together, so that their cache misses (or network round trips) overlap. `results[i]` is what
 * operation i returned. A failing operation does not stop the others; when all have ended the first
 * error is returned, and `results` has no entry where an operation failed.
 */
export function runInterleaved<T>(
  fabric: Fabric,
  operations: Operation<T>[],
  results: T[],
): { error: unknown } | undefined {
  const batches: Batch[] = new Array(operations.length);
  const live = operations.map((_, index) => index);
  let liveCount = live.length;
  let failure: { error: unknown } | undefined;
  while (liveCount > 0) {
    let count = 0;
    for (let i = 0; i < liveCount; i++) {
      const index = live[i];
      try {
        const step = advance(operations[index]);
        if (step.done) {
          results[index] = step.value;
        } else {
          batches[count] = step.value;
          live[count++] = index;
        }
      } catch (error) {
        failure ??= { error };
      }
    }
    liveCount = count;
    if (count > 0) fabric.executeAll(batches, count);
  }
  return failure;
}
