import type { Fabric, Operation } from '../../index.ts';

/**
 * Runs independent operations in flight together: one batch of each, in turn, until all have ended.
 * `results[i]` is what operation i returned. A failing operation does not stop the others; the
 * first failure is returned, and the failed operations' results are undefined.
 */
export function runTogether<T>(
  fabric: Fabric,
  operations: readonly Operation<T>[],
  results: (T | undefined)[],
): { error: unknown } | undefined {
  for (let i = 0; i < operations.length; i++) results[i] = undefined;
  let failure: { error: unknown } | undefined;
  /** What the last batch of an operation failed with. */
  const errors = new Map<Operation<T>, unknown>();
  const live = new Set(operations);
  const advance = (operation: Operation<T>, i: number) => {
    try {
      const isFailed = errors.has(operation);
      const step = isFailed ? operation.throw(errors.get(operation)) : operation.next();
      errors.delete(operation);
      if (!step.done) return step.value;
      results[i] = step.value;
    } catch (error) {
      failure ??= { error };
    }
    live.delete(operation);
    return undefined;
  };
  while (live.size > 0) {
    const batches = operations.map((operation, i) =>
      live.has(operation) ? advance(operation, i) : undefined,
    );
    batches.forEach((batch, i) => {
      if (batch === undefined) return;
      try {
        fabric.execute(batch);
      } catch (error) {
        errors.set(operations[i], error);
      }
    });
  }
  return failure;
}
