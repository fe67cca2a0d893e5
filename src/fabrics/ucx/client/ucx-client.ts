import { UcxContext } from '../binding/context.ts';
import type { UcxLibrary } from '../binding/library.ts';
import { UcxEndpoint, UcxWorker } from '../binding/worker.ts';
import type { Transports } from '../transports.ts';

/** How long to spin for completions. */
const SPIN_MICROSECONDS = 30;
/** Checks for completions between two readings of the clock. */
const CLOCK_EVERY = 8;
/** Below this age, a turn of the event loop also posts the verbs that follow from its answers. */
const TURN_MICROSECONDS = 100;
const NOT_YET = -1;
/** After this long without a completion, wait at the worker's descriptor. */
const POLLING_MICROSECONDS = 100;
/** Longest poll; then the client checks for completions. */
const WAIT_MS = 100;
/** How often a client without verbs in flight lets the library do its own work. */
const REST_MS = 1000;
const POLLIN = 1;

/** A queue pair that waits for completions. */
export interface Waiter {
  /** Whether verbs are in flight. */
  readonly isWaiting: boolean;
  /** Handles completions; returns whether there were any. */
  complete(): boolean;
}

/**
 * One client's use of the library: a context, and a worker that all of its queue pairs share. It
 * runs in the event loop. While verbs are in flight, it checks for completions in the same turn for
 * some microseconds, then once per turn, and then waits at a descriptor in another thread. Without
 * verbs in flight, only a timer runs.
 */
export class UcxClient {
  readonly ucx: UcxLibrary;
  readonly worker: UcxWorker;
  readonly transports: Transports;
  readonly #context: UcxContext;
  #waiters: readonly Waiter[] = [];
  readonly #endpoints = new Set<UcxEndpoint>();
  readonly #descriptor = new Int32Array(new ArrayBuffer(8));
  readonly #turn = () => {
    this.#scheduled = false;
    this.#turned = microseconds();
    this.#look();
  };
  readonly #post = (post: () => void) => {
    this.#hasPosted = false;
    this.#isPosting = true;
    post();
    this.#isPosting = false;
    if (this.#hasPosted) this.#look();
  };
  /** The last known start of a turn of the event loop. */
  #turned = 0;
  readonly #rest: NodeJS.Timeout;
  /** The first check after the last completion, or after waiting began. */
  #since = NOT_YET;
  #scheduled = false;
  /** Whether `post` is running, after which the client checks, and whether it posted verbs. */
  #isPosting = false;
  #hasPosted = false;
  #polling = false;
  #isClosed = false;

  /** Raises SW_UNSUPPORTED if no device has these transports, or no descriptors are left. */
  constructor(ucx: UcxLibrary, transports: Transports) {
    this.ucx = ucx;
    this.transports = transports;
    this.#context = new UcxContext(ucx, transports);
    try {
      this.worker = new UcxWorker(this.#context);
    } catch (error) {
      this.#context.close();
      throw error;
    }
    this.#rest = setInterval(() => this.worker.progress(), REST_MS).unref();
  }

  /** A queue pair to the worker with this address. Raises SW_UNSUPPORTED. */
  connect(address: Uint8Array): UcxEndpoint {
    const endpoint = new UcxEndpoint(this.worker, address);
    this.#endpoints.add(endpoint);
    return endpoint;
  }

  /** From now on the client checks for completions of this queue pair. */
  add(waiter: Waiter): void {
    this.#waiters = [...this.#waiters, waiter];
  }

  /**
   * Makes the library write to no memory of this queue pair any more. The last queue pair closes
   * the client.
   */
  leave(waiter: Waiter, endpoint: UcxEndpoint): void {
    if (this.#isClosed) return;
    this.#waiters = this.#waiters.filter((one) => one !== waiter);
    this.#endpoints.delete(endpoint);
    endpoint.close();
    if (this.#waiters.length === 0) this.close();
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Call after posting verbs. */
  begin(): void {
    if (this.#polling) return;
    if (!this.#scheduled) this.#since = NOT_YET;
    if (this.#isPosting) this.#hasPosted = true;
    else this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(this.#turn);
  }

  /**
   * Runs `post` after all code that is ready to run, and then checks for completions. A turn of the
   * event loop takes longer than a verb, so it uses the current turn if that is young, otherwise
   * the next one.
   */
  soon(post: () => void): void {
    if (microseconds() - this.#turned < TURN_MICROSECONDS) {
      // After the microtasks of promises that have resolved by now.
      queueMicrotask(() => process.nextTick(this.#post, post));
      return;
    }
    setImmediate(() => {
      this.#turned = microseconds();
      this.#post(post);
    });
  }

  #look(): void {
    // While a thread waits at the descriptor, its end leads to the next look. A second thread would
    // still wait when the first has destroyed the worker, and would then destroy it again.
    if (this.#isClosed || this.#polling) return;
    const began = microseconds();
    if (this.#since === NOT_YET) this.#since = began;
    let now = began;
    let completed = false;
    let looks = 0;
    do {
      // Without progress nothing completes, except by what was done since the last check.
      if (this.worker.progress() > 0 || looks === 0) completed = this.#complete();
      if (++looks % CLOCK_EVERY === 0) now = microseconds();
    } while (!completed && now - began < SPIN_MICROSECONDS && !this.#isClosed);
    if (completed) this.#since = NOT_YET;
    if (this.#isClosed || !this.#isWaiting()) return;
    if (!completed && now - this.#since >= POLLING_MICROSECONDS && this.worker.arm()) {
      this.#wait();
      return;
    }
    this.#schedule();
  }

  #complete(): boolean {
    let completed = false;
    for (const waiter of this.#waiters) completed = waiter.complete() || completed;
    return completed;
  }

  #isWaiting(): boolean {
    for (const { isWaiting } of this.#waiters) if (isWaiting) return true;
    return false;
  }

  #wait(): void {
    this.#polling = true;
    this.#descriptor[0] = this.worker.descriptor;
    this.#descriptor[1] = POLLIN;
    this.ucx.pollLater(this.#descriptor, 1, WAIT_MS).then(() => {
      this.#polling = false;
      if (this.#isClosed) this.#destroy();
      else this.#look();
    });
  }

  /** From now on the library writes to no memory of this client. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearInterval(this.#rest);
    // The descriptor must not be closed while a thread waits for it.
    if (this.#polling) this.worker.signal();
    else this.#destroy();
  }

  #destroy(): void {
    for (const endpoint of this.#endpoints) endpoint.close();
    this.worker.close();
    this.#context.close();
  }
}

/** A local name: the global one is a getter that runs each time. */
const clock = performance;

function microseconds(): number {
  return clock.now() * 1000;
}
