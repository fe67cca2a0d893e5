import type { Batch } from './batch.ts';
import type { Operation } from './operation.ts';
import { advance } from './runners.ts';
import type { TrafficCounters } from './traffic.ts';
import type { UnwaitedWrite } from './unwaited.ts';

/** What waits for a batch. */
export interface Completion {
  /** All results are in the scratches; or `error` is what the batch failed with. */
  completed(error: unknown): void;
}

/**
 * Where verbs run when they take time: a network. One fabric value belongs to one client, whose
 * operations are in flight together; batches that are posted in one turn of the event loop are sent
 * together. A batch and its local data belong to the fabric until it is completed.
 */
export interface RemoteFabric {
  readonly traffic: TrafficCounters;
  /** Posts one batch: one round trip. Completes it later, never before `post` has returned. */
  post(batch: Batch, completion: Completion): void;
}

/**
 * Runs one operation to its end on a fabric whose verbs take time. One promise an operation, none a
 * verb; however many operations run, their batches share sends.
 */
export function runRemote<T>(fabric: RemoteFabric, operation: Operation<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    new Flight(fabric, operation, { resolve, reject }).completed(undefined);
  });
}

/** What hears how an operation, or what it waits for, has ended. */
interface Ending<T> {
  resolve(value: T): void;
  reject(error: unknown): void;
}

/**
 * A step of an operation that posts nothing and waits for something else: only in `runRemote`. It
 * is no batch, whose arrays would cost more than all else of such a step.
 */
class Waiting<T> implements Ending<T> {
  readonly isWaitedFor = true;
  /** The operation, once it waits. */
  flight: Flight<unknown> | undefined;
  hasEnded = false;
  value: T | undefined;
  failure: unknown;

  resolve(value: T): void {
    this.hasEnded = true;
    this.value = value;
    this.flight?.completed(undefined);
  }

  reject(error: unknown): void {
    this.hasEnded = true;
    this.failure = error;
    this.flight?.completed(error);
  }
}

/**
 * Does not yield if `begin` has ended it already. Otherwise each of these endings would resume the
 * operation on top of the one before, and a long run of them would overflow the stack.
 */
function* wait<T>(begin: (ending: Ending<T>) => void): Operation<T> {
  const waiting = new Waiting<T>();
  begin(waiting);
  if (!waiting.hasEnded) yield waiting as unknown as Batch;
  else if (waiting.failure !== undefined) throw waiting.failure;
  return waiting.value as T;
}

/** Waits within an operation whose verbs take time; raises what the promise fails with. */
export function waitFor<T>(promise: Promise<T>): Operation<T> {
  return wait((ending) => {
    promise.then(
      (value) => ending.resolve(value),
      (error) => ending.reject(error),
    );
  });
}

/**
 * Runs a part of an operation on a fabric of its own, which may end before the operation does. The
 * batches of the part resume the part alone: not, as behind `yield*`, every generator around it.
 */
export function runWithin<T>(fabric: RemoteFabric, operation: Operation<T>): Operation<T> {
  return wait((ending) => new Flight(fabric, operation, ending).completed(undefined));
}

/** One operation between its batches. */
class Flight<T> implements Completion {
  readonly #fabric: RemoteFabric;
  readonly #operation: Operation<T>;
  readonly #ending: Ending<T>;

  constructor(fabric: RemoteFabric, operation: Operation<T>, ending: Ending<T>) {
    this.#fabric = fabric;
    this.#operation = operation;
    this.#ending = ending;
  }

  completed(error: unknown): void {
    let step: IteratorResult<Batch, T>;
    try {
      // The operation hears of a failure, so that it can give back what it holds.
      step = error === undefined ? advance(this.#operation) : this.#operation.throw(error);
      while (!step.done && !step.value.isWaitedFor) {
        this.#postUnwaited(step.value as UnwaitedWrite);
        step = advance(this.#operation);
      }
    } catch (failure) {
      this.#ending.reject(failure);
      return;
    }
    if (step.done) this.#ending.resolve(step.value);
    else if (step.value instanceof Waiting) step.value.flight = this;
    else this.#fabric.post(step.value, this);
  }

  #postUnwaited(write: UnwaitedWrite): void {
    write.isUnderWay = true;
    this.#fabric.post(write, write);
  }
}
