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
