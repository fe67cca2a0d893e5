import type { Batch, Operation } from '../../src/verbs/index.ts';

/** Nanoseconds that operations have spent in each phase. */
export type Phases = Record<string, number>;

/** Runs an operation and adds the time of each of its batches to that of its phase. */
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

/** A scan reads the keys first, then many records with one doorbell. */
export function phaseOfScan(batch: Batch): string {
  return batch.length >= 50 ? 'records' : 'index';
}

/** A GET reads one bucket, then the records that the bucket points to. */
export function phaseOfGet(): (batch: Batch) => string {
  let batches = 0;
  return () => (batches++ === 0 ? 'index' : 'records');
}
