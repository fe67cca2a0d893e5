import type { Batch, Operation } from '../../src/verbs/index.ts';

/** Time that operations have spent in each of their phases, in nanoseconds. */
export type Phases = Record<string, number>;

/** Runs an operation and adds up the time of its batches by phase. */
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

/** Records are read many in one doorbell, and before that their keys. */
export function phaseOfScan(batch: Batch): string {
  return batch.length >= 50 ? 'records' : 'index';
}

/** A GET reads one bucket, then what it names. */
export function phaseOfGet(): (batch: Batch) => string {
  let batches = 0;
  return () => (batches++ === 0 ? 'index' : 'records');
}
