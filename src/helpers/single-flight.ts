import { createHash, randomUUID } from 'node:crypto';
import { refuseAborted, unlessAborted } from '../store/abortable.ts';
import type { AsyncStore, ExpiryOptions, Key } from '../store/api.ts';
import { checkFunction, checkOptions, isRecord } from '../store/arguments.ts';
import { checkTtl } from '../store/calls/expiry.ts';
import type { StateChange, StateLook } from '../store/internal-calls.ts';
import { keyBytes } from '../store/keys.ts';
import { type AnyStore, checkPositive, promised } from './host.ts';
import { Waiting, type WaitOptions } from './waiting.ts';

/** How long a load may take before another client begins one, when the caller does not say. */
const LOAD_MS = 30_000;
/** How late a leader may be and still find out whether another one has led since. */
const KEPT_MS = 3_600_000;

/** Options of `getOrSet`. */
export interface GetOrSetOptions extends WaitOptions {
  /**
   * How long a loaded value is fresh, in milliseconds; reads do not extend it. Default: the
   * lifetime of the store. All callers should pass the same for a key.
   */
  ttlMs?: number;
  /**
   * How many milliseconds after `ttlMs` the stale value is still returned, while one client loads
   * a new one in the background. Needs `ttlMs`. Default 0.
   */
  staleMs?: number;
  /**
   * How long a load may take, in milliseconds. After that, or as soon as the loading process has
   * died, another client may begin a load. A late value is stored only if no other client has begun
   * a load since. Default 30,000.
   */
  loadMs?: number;
  /**
   * Called when a background load fails; the next caller tries again. An error that it throws
   * becomes a process warning.
   */
  onRefreshError?: (error: unknown) => void;
}

/** Loads a value. `signal` is that of the options, or undefined for a background load. */
export type Load<V> = (signal: AbortSignal | undefined) => V | Promise<V>;

/**
 * The flight of a key: which client loads its value. `flight` names the load.
 *
 *   lead   By any caller, if there is no flight, or its client is dead or late. The caller's flight
 *          replaces it. Then the caller looks for the value once more, and loads it.
 *   keep   By the leader after its load, if its flight is still current. It extends `until` to
 *          `loadMs` from now. Then it stores the value if the key has not changed: still absent, or
 *          of the version that was stale. So it overwrites no write that came in between.
 *   land   By the leader, if its flight is still current. It removes the flight.
 *
 *   A client that dies before `lead` has changed nothing. One that dies between `lead` and `land`
 *   is gone: the next caller finds the value, or leads. After `land` the value is there.
 *
 * The value is stored before `land`. A caller that finds neither value nor flight may lead, and
 * looks for the value once more first. Errors are stored nowhere: the next caller that waits leads.
 *
 * No older value follows a newer one. An absent key does not tell a late leader that the key was
 * absent all the time: a newer value may have come and expired. The flight does tell. A client that
 * leads replaces the flight, and later removes it. So a late leader finds its own flight only if no
 * other client has led since; without it the leader stores nothing. This is why a late flight is
 * remembered for KEPT_MS.
 *
 * A leader may stop between `keep` and its write. The next client leads at least `loadMs` after
 * that `keep`. A value lives for `ttlMs` from its `keep`, not from its write, so the older value
 * expires first. If it is written after the newer value has expired, it has expired as well. This
 * needs the same `ttlMs` of all callers. Without `ttlMs` the store's own lifetime begins with the
 * write, directly after `keep`.
 */
interface Flight {
  readonly flight: string;
  readonly client: number;
  readonly until: number;
}

/**
 * The value of the key, or what `load` returns, which is then stored. When several threads,
 * processes or machines ask for a key at the same time, one runs its `load` and the others wait for
 * the value. An error of `load` goes to its own caller alone; the next caller that waits then
 * loads. A deletion while a value is being loaded is not noticed.
 *
 * @throws StepwellError SW_TIMEOUT when others load for longer than `waitMs`, SW_ABORTED,
 *   SW_INVALID_ARGUMENT.
 */
export async function getOrSet<V, W extends V>(
  store: AnyStore<V, W>,
  key: Key,
  load: Load<W>,
  options: GetOrSetOptions = {},
): Promise<V> {
  checkOptions(options, ['ttlMs', 'staleMs', 'loadMs', 'waitMs', 'signal', 'onRefreshError']);
  checkFunction('load', load);
  const { loadMs = LOAD_MS, ttlMs, staleMs = 0, onRefreshError } = options;
  checkPositive('loadMs', loadMs);
  if (ttlMs !== undefined) checkTtl(ttlMs);
  if (onRefreshError !== undefined) checkFunction('onRefreshError', onRefreshError);
  if (staleMs !== 0) {
    checkPositive('staleMs', staleMs);
    checkPositive('ttlMs', ttlMs);
  }
  const caller = new Caller<V, W>(promised(store), key, load, options, loadMs);
  return unlessAborted('the wait', options.signal, () =>
    staleMs === 0 ? caller.value() : caller.valueOrStale(staleMs),
  );
}

/** One call of `getOrSet`. */
class Caller<V, W extends V> {
  readonly #store: AsyncStore<V, Key, W>;
  readonly #key: Key;
  readonly #load: Load<W>;
  readonly #options: GetOrSetOptions;
  readonly #loadMs: number;
  readonly #flight = randomUUID();

  constructor(
    store: AsyncStore<V, Key, W>,
    key: Key,
    load: Load<W>,
    options: GetOrSetOptions,
    loadMs: number,
  ) {
    this.#store = store;
    this.#key = typeof key === 'string' ? key : keyBytes(key);
    this.#load = load;
    this.#options = options;
    this.#loadMs = loadMs;
  }

  async value(): Promise<V> {
    const waiting = new Waiting('the load of a value by another client', this.#options);
    for (;;) {
      const found = await this.#store.get(this.#key);
      if (found !== undefined) return found;
      if (await this.#lead()) return await this.#loadAbsent();
      await waiting.pause();
    }
  }

  async valueOrStale(staleMs: number): Promise<V> {
    const entry = await this.#store.getEntry(this.#key);
    const left = entry && (await this.#store.ttl(this.#key));
    if (entry === undefined || left === undefined) return this.value();
    if (left <= staleMs) {
      this.#refresh(entry.version)
        .catch((error) => this.#options.onRefreshError?.(error))
        .catch((error) => process.emitWarning(`onRefreshError of getOrSet threw: ${error}`));
    }
    return entry.value;
  }

  async #loadAbsent(): Promise<V> {
    try {
      // Another leader may have stored the value and landed after this caller's last look.
      const found = await this.#store.get(this.#key);
      if (found !== undefined) return found;
      refuseAborted('the wait', this.#options.signal);
      const value = await this.#load(this.#options.signal);
      refuseAborted('the wait', this.#options.signal);
      const keptAt = await this.#keep();
      if (keptAt === undefined) return value;
      await this.#store.insert(this.#key, value, this.#lifetimeFrom(keptAt));
      return value;
    } finally {
      await this.#land();
    }
  }

  /** Loads a new value for a stale one, unless another client does. */
  async #refresh(version: number): Promise<void> {
    if (!(await this.#lead())) return;
    try {
      const entry = await this.#store.getEntry(this.#key);
      if (entry?.version !== version) return;
      const value = await this.#load(undefined);
      const keptAt = await this.#keep();
      if (keptAt === undefined) return;
      const lifetime = this.#lifetimeFrom(keptAt);
      await this.#store.compareAndSet(this.#key, version, value, lifetime);
    } finally {
      await this.#land();
    }
  }

  #lifetimeFrom(keptAt: number): ExpiryOptions | undefined {
    const { ttlMs, staleMs = 0 } = this.#options;
    if (ttlMs === undefined) return undefined;
    return Number.isFinite(ttlMs) ? { expiresAt: keptAt + ttlMs + staleMs } : { ttlMs };
  }

  /** The state's name: short for any key, and the same for text and for its bytes. */
  get #state(): string {
    const hash = createHash('sha256').update(keyBytes(this.#key));
    return `load:${hash.digest('base64url')}`;
  }

  #lead(): Promise<boolean> {
    return this.#store.changeState(this.#state, (state, look) =>
      lead(state, look, this.#flight, this.#loadMs),
    );
  }

  #keep(): Promise<number | undefined> {
    return this.#store.changeState(this.#state, (state, look) =>
      keep(state, look, this.#flight, this.#loadMs),
    );
  }

  async #land(): Promise<void> {
    await this.#store.changeState(this.#state, (state) => land(state, this.#flight));
  }
}

/** Makes this flight the current one if it may be; returns whether it did. */
export function lead(
  state: unknown,
  { now, self, isGone }: StateLook,
  flight: string,
  loadMs: number,
): StateChange<boolean> {
  const found = flightIn(state);
  if (found !== undefined && found.until > now && !isGone(found.client)) return { result: false };
  return { result: true, ...flying(flight, self, now + loadMs) };
}

/** If the leader may store what it has loaded, the time of this permission; else undefined. */
export function keep(
  state: unknown,
  { now, self }: StateLook,
  flight: string,
  loadMs: number,
): StateChange<number | undefined> {
  if (flightIn(state)?.flight !== flight) return { result: undefined };
  return { result: now, ...flying(flight, self, now + loadMs) };
}

function flying(flight: string, client: number, until: number) {
  const next: Flight = { flight, client, until };
  return { next, keepUntil: until + KEPT_MS };
}

/** Ends a flight, unless another one has taken its place. */
export function land(state: unknown, flight: string): StateChange<boolean> {
  if (flightIn(state)?.flight !== flight) return { result: false };
  return { result: true, next: null };
}

/** Undefined if the state is not a valid flight; `lead` then overwrites it. */
function flightIn(state: unknown): Flight | undefined {
  if (state === undefined || !isRecord(state)) return undefined;
  const { flight, client, until } = state as Partial<Flight>;
  if (typeof flight !== 'string') return undefined;
  if (!Number.isFinite(until) || !Number.isSafeInteger(client)) return undefined;
  return state as Flight;
}
