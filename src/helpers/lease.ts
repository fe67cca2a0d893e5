import { type ErrorCode, hasCode, StepwellError } from '../errors.ts';
import { unlessAborted } from '../store/abortable.ts';
import { checkFlag, checkOptions } from '../store/arguments.ts';
import { type AnyStore, checkName, checkPositive, promised } from './host.ts';
import { givePermit, renewPermit, takePermit } from './permits.ts';
import { TIMER_MAX_MS, Waiting, type WaitOptions } from './waiting.ts';

/** How many times in its term a permit is renewed. */
const RENEWALS = 3;

const LEASE_OPTIONS = ['ttlMs', 'renew', 'waitMs', 'signal'] as const;

/** Errors of a renewal after which no lease of this store can be held. */
const GONE: readonly ErrorCode[] = [
  'SW_CLOSED',
  'SW_STORE_DROPPED',
  'SW_POOL_DESTROYED',
  'SW_REVOKED',
];

/** Options of `lease`. */
export interface LeaseOptions extends WaitOptions {
  /**
   * Milliseconds after which a holder that has not renewed its permit loses it. Longer than the
   * holder's event loop ever stands still.
   */
  ttlMs: number;
  /** Whether the permit is renewed by itself as long as the event loop turns. Default true. */
  renew?: boolean;
}

/** A permit that is held, until it is released or lost, its store is closed or its holder dies. */
export interface Lease extends AsyncDisposable {
  readonly name: string;
  /**
   * The fencing token: greater than that of every holder before. The guarded resource should refuse
   * a token below the greatest that it has seen: nothing else keeps out a holder that slept.
   */
  readonly token: number;
  /**
   * Aborted, with SW_LEASE_LOST as reason, as soon as `isHeld` is false. The message says why: it
   * was released, its store was closed, or it was lost.
   */
  readonly signal: AbortSignal;
  /**
   * Whether it is held, as far as this client knows without asking the store: false if its time has
   * run out, it was released or its store was closed.
   */
  readonly isHeld: boolean;
  /**
   * Holds it for another `ttlMs` from now on; false when it is over.
   *
   * @throws StepwellError what calls of the store throw, such as SW_NODE_UNREACHABLE.
   */
  renew(): Promise<boolean>;
  /**
   * Gives it back, so that others need not wait; false when it was over. Closing the store, or the
   * namespace that it was taken by, does the same.
   *
   * @throws StepwellError what calls of the store throw; it is over all the same.
   */
  release(): Promise<boolean>;
}

/**
 * Waits until this client holds the lease of that name, which one client of the store has at a
 * time. It passes on when it is released, when its holder's process or thread has died, which
 * others notice within a moment, and when its time has run out. Over a network a holder is dead to
 * the others when its connections are lost, of which it may learn as late as with its next renewal.
 *
 * @throws StepwellError SW_TIMEOUT after `waitMs`, SW_ABORTED, SW_INVALID_ARGUMENT.
 */
export async function lease(store: AnyStore, name: string, options: LeaseOptions): Promise<Lease> {
  return hold(store, 'lease', name, 1, options);
}

/** As `lease`, without waiting: undefined while another client holds it. */
export async function tryLease(
  store: AnyStore,
  name: string,
  options: Omit<LeaseOptions, keyof WaitOptions>,
): Promise<Lease | undefined> {
  checkOptions(options, LEASE_OPTIONS);
  try {
    return await hold(store, 'lease', name, 1, { ...options, waitMs: 0 });
  } catch (error) {
    if (hasCode(error, 'SW_TIMEOUT')) return undefined;
    throw error;
  }
}

/** Options of `semaphore`. */
export interface SemaphoreOptions extends LeaseOptions {
  /** How many clients may hold a permit at a time. All clients should name the same number. */
  permits: number;
}

/** As `lease`, where `permits` clients may hold a permit of that name at a time. */
export async function semaphore(
  store: AnyStore,
  name: string,
  options: SemaphoreOptions,
): Promise<Lease> {
  checkOptions(options, ['permits', ...LEASE_OPTIONS]);
  const { permits, ...rest } = options;
  checkPositive('permits', permits, true);
  return hold(store, 'semaphore', name, permits, rest);
}

async function hold(
  store: AnyStore,
  kind: string,
  name: string,
  permits: number,
  options: LeaseOptions,
): Promise<Lease> {
  checkName(name);
  checkOptions(options, LEASE_OPTIONS);
  const { ttlMs, renew = true } = options;
  checkPositive('ttlMs', ttlMs);
  checkFlag('renew', renew);
  const host = promised(store);
  const state = `${kind}:${name}`;
  const waiting = new Waiting(`${kind} ${name}`, options);
  const { signal } = options;
  return unlessAborted('the wait', signal, async () => {
    for (;;) {
      // Read before the verbs, so it is earlier than the time from which other clients count.
      const asked = performance.now();
      const token = await host.changeState(state, (found, look) =>
        takePermit(found, look, { permits, ttlMs }),
      );
      if (token !== undefined) {
        const held = new HeldPermit(host, state, name, token, ttlMs, asked + ttlMs, renew);
        // The caller never gets this lease, so others need not wait until its time has run out.
        if (signal?.aborted) await held.release();
        return held;
      }
      await waiting.pause();
    }
  });
}

type Host = ReturnType<typeof promised>;

/** Milliseconds that a timer can wait, at least one. */
const pauseOf = (ms: number) => Math.min(Math.max(1, ms), TIMER_MAX_MS);

class HeldPermit implements Lease {
  readonly name: string;
  readonly token: number;
  readonly #store: Host;
  readonly #state: string;
  readonly #ttlMs: number;
  readonly #ended = new AbortController();
  /** When the lease ends, by a clock that never jumps; a little before the time that others see. */
  #end: number;
  #over = false;
  #forgetStore = () => {};
  #ending: NodeJS.Timeout | undefined;
  #renewing: NodeJS.Timeout | undefined;

  constructor(
    store: Host,
    state: string,
    name: string,
    token: number,
    ttlMs: number,
    end: number,
    renews: boolean,
  ) {
    this.#store = store;
    this.#state = state;
    this.name = name;
    this.token = token;
    this.#ttlMs = ttlMs;
    this.#end = end;
    this.#forgetStore = store.beforeClose(() => this.#giveBeforeClose());
    // The store was closed while the permit was on its way.
    if (this.#over) return;
    this.#endInTime();
    if (renews) this.#renewInTime();
  }

  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  get isHeld(): boolean {
    // No timer tells while the event loop stands still.
    if (performance.now() >= this.#end) this.#finish('its time ran out');
    return !this.#over;
  }

  /** Ends when its time has run out, even while a renewal waits for a silent node. */
  #endInTime(): void {
    const left = this.#end - performance.now();
    if (left <= 0) this.#finish('its time ran out');
    else this.#ending = setTimeout(() => this.#endInTime(), pauseOf(left)).unref();
  }

  /** Renews again and again, also after a failure. */
  #renewInTime(): void {
    const act = async () => {
      await this.renew().catch(() => {});
      if (!this.#over) this.#renewInTime();
    };
    this.#renewing = setTimeout(act, pauseOf(this.#ttlMs / RENEWALS)).unref();
  }

  /** However it ends: the holder hears of it before another client can hold the permit. */
  #finish(why: string, cause?: unknown): void {
    if (this.#over) return;
    this.#over = true;
    clearTimeout(this.#ending);
    clearTimeout(this.#renewing);
    this.#forgetStore();
    const message = `the lease ${this.name} (token ${this.token}) is over: ${why}`;
    this.#ended.abort(new StepwellError('SW_LEASE_LOST', message, { cause }));
  }

  async renew(): Promise<boolean> {
    if (this.#over) return false;
    const asked = performance.now();
    const isHeld = await this.#putOff();
    if (!isHeld) this.#finish('its time ran out');
    else if (!this.#over) this.#end = asked + this.#ttlMs;
    // It was lost or released meanwhile, so no other client should wait for it.
    else await this.#give();
    return isHeld && !this.#over;
  }

  async #putOff(): Promise<boolean> {
    const { token } = this;
    try {
      return await this.#store.changeState<boolean>(this.#state, (state, look) =>
        renewPermit(state, look, token, this.#ttlMs),
      );
    } catch (error) {
      const gone = GONE.find((code) => hasCode(error, code));
      if (gone !== undefined) this.#finish(`its renewal met ${gone}`, error);
      throw error;
    }
  }

  async release(): Promise<boolean> {
    if (this.#over) return false;
    this.#finish('it was released');
    return this.#give();
  }

  /** If this fails, the lease ends with its time, or when others find this client gone. */
  async #giveBeforeClose(): Promise<void> {
    if (this.#over) return;
    this.#finish('its store was closed');
    await this.#give().catch(() => {});
  }

  #give(): Promise<boolean> {
    const { token } = this;
    return this.#store.changeState<boolean>(this.#state, (state, look) =>
      givePermit(state, look, token),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }
}
