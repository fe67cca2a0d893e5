import type { Batch, Operation } from '../../src/verbs/index.ts';

/** Total nanoseconds that operations spent in each phase. */
export type Phases = Record<string, number>;

/** Runs an operation and adds the time of each batch to the batch's phase. */
export function* timed<T>(
  operation: Operation<T>,
  now: () => number,
  phaseOf: (batch: Batch) => string,
  phases: Phases,
): Operation<T> {
  let step = operation.next();
  while (!step.done) {
    const phase = phaseOf(step.value);
    const began = now();
    yield step.value;
    phases[phase] = (phases[phase] ?? 0) + now() - began;
    step = operation.next();
  }
  return step.value;
}

/** A scan first reads keys, then many records in one batch. */
export function phaseOfScan(batch: Batch): string {
  return batch.length >= 50 ? 'records' : 'index';
}

/** A GET reads one bucket, then the records that the bucket points to. */
export function phaseOfGet(): (batch: Batch) => string {
  let batches = 0;
  return () => (batches++ === 0 ? 'index' : 'records');
}
