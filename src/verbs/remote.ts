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
    new Flight(fabric, operation, resolve, reject).completed(undefined);
  });
}

/** Starts something that ends by a call of one of the two functions. */
type Begin<T> = (resolve: (value: T) => void, reject: (error: unknown) => void) => void;

/**
 * A step of an operation that posts nothing and waits for something else: only in `runRemote`. It
 * is no batch, whose arrays would cost more than all else of such a step.
 */
class Waiting<T> {
  readonly isWaitedFor = true;
  readonly begin: Begin<T>;
  value: T | undefined;

  constructor(begin: Begin<T>) {
    this.begin = begin;
  }
}

function* wait<T>(begin: Begin<T>): Operation<T> {
  const waiting = new Waiting(begin);
  yield waiting as unknown as Batch;
  return waiting.value as T;
}

/** Waits within an operation whose verbs take time; raises what the promise fails with. */
export function waitFor<T>(promise: Promise<T>): Operation<T> {
  return wait((resolve, reject) => promise.then(resolve, reject));
}

/** Runs a part of an operation on a fabric of its own, which may end before the operation does. */
export function runWithin<T>(fabric: RemoteFabric, operation: Operation<T>): Operation<T> {
  return wait((resolve, reject) => {
    new Flight(fabric, operation, resolve, reject).completed(undefined);
  });
}

/** One operation between its batches. */
class Flight<T> implements Completion {
  readonly #fabric: RemoteFabric;
  readonly #operation: Operation<T>;
  readonly #resolve: (value: T) => void;
  readonly #reject: (error: unknown) => void;

  constructor(
    fabric: RemoteFabric,
    operation: Operation<T>,
    resolve: (value: T) => void,
    reject: (error: unknown) => void,
  ) {
    this.#fabric = fabric;
    this.#operation = operation;
    this.#resolve = resolve;
    this.#reject = reject;
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
      this.#reject(failure);
      return;
    }
    if (step.done) this.#resolve(step.value);
    else if (step.value instanceof Waiting) this.#wait(step.value);
    else this.#fabric.post(step.value, this);
  }

  #postUnwaited(write: UnwaitedWrite): void {
    write.isUnderWay = true;
    this.#fabric.post(write, write);
  }

  #wait(waiting: Waiting<unknown>): void {
    const resolve = (value: unknown) => {
      waiting.value = value;
      this.completed(undefined);
    };
    waiting.begin(resolve, (error) => this.completed(error));
  }
}
