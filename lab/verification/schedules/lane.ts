import type { Prng } from '../../../src/random/prng.ts';
import type { Operation } from '../../../src/verbs/index.ts';
import type { AdversaryFabric } from './adversary.ts';
import { RandomExecution } from './chance.ts';

/** One coroutine of a client, with at most one operation in flight, executed piece by piece. */
export class Lane {
  readonly #fabric: AdversaryFabric;
  readonly #prng: Prng;
  #running: Operation<void> | undefined;
  #execution: RandomExecution | undefined;
  /** Whether the last piece let time pass. */
  paused = false;

  constructor(fabric: AdversaryFabric, prng: Prng) {
    this.#fabric = fabric;
    this.#prng = prng;
  }

  get idle(): boolean {
    return this.#running === undefined;
  }

  /** Whether no batch has been executed in part. */
  get isBetween(): boolean {
    return this.#execution === undefined || !this.#execution.begun;
  }

  /** The operation runs up to its first batch, of which nothing has happened yet. */
  begin(operation: Operation<void>): void {
    this.paused = false;
    this.#running = operation;
    this.#advance();
  }

  /** Lets one piece happen; after a batch's last one the operation goes on to its next batch. */
  step(): void {
    const execution = this.#execution as RandomExecution;
    execution.step();
    this.paused = execution.paused;
    if (!execution.finished) return;
    this.#execution = undefined;
    this.#advance();
  }

  #advance(): void {
    const { done, value } = (this.#running as Operation<void>).next();
    if (done) this.#running = undefined;
    else this.#execution = new RandomExecution(this.#fabric, value, this.#prng);
  }
}
