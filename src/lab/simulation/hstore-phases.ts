import { type Batch, CAS, type Operation, WRITE } from '../../verbs/index.ts';

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

/** A PUT posts record and request with an attempt at the lease; then it waits for its answer. */
export function phaseOfPut(batch: Batch): string {
  return has(batch, CAS) && has(batch, WRITE) ? 'rpc' : 'wait';
}

/** A turn of the hash server changes everything in one doorbell, after READs only. */
export function phaseOfTurn(batch: Batch): string {
  return has(batch, WRITE) ? 'log' : 'index';
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

function has(batch: Batch, kind: number): boolean {
  for (let row = 0; row < batch.length; row++) if (batch.kind[row] === kind) return true;
  return false;
}
