import { callbackify } from 'node:util';
import type { AnyStore } from '../helpers/host.ts';
import type { AsyncStore, ExpiryOptions, Key } from '../store/api.ts';
import { checkOptions } from '../store/arguments.ts';
import { type AdapterValues, spaceOf } from './space.ts';

const DAY_MS = 86_400_000;

/** The part of a session that decides when it expires. */
interface SessionRecord {
  cookie?: { expires?: Date | string | null | undefined };
}

/** The namespace of a session store. Raises SW_INVALID_ARGUMENT and SW_INVALID_KEY. */
export function sessionsOf<S>(
  store: AnyStore,
  options: { prefix?: string; ttlMs?: number; values?: AdapterValues<S> },
): AsyncStore<S, Key, S> {
  checkOptions(options, ['prefix', 'ttlMs', 'values']);
  const { prefix = 'session:', ttlMs = DAY_MS, values = 'json' } = options;
  return spaceOf<S>(store, prefix, { values, ttlMs, sliding: false });
}

/**
 * Calls back, as session libraries expect, also with what `work` raises before it first waits. An
 * error that `done` raises is no failed call.
 */
export function answer<T>(
  work: () => Promise<T>,
  done: (error: unknown, result?: T) => void = () => {},
): void {
  callbackify(async () => work())(done);
}

/** The session as it is stored. Only JSON would call the cookie's `toJSON` by itself. */
export function storedSession<S extends SessionRecord>(session: S): S {
  const { cookie } = session as { cookie?: { toJSON?(): S['cookie'] } };
  return { ...session, cookie: cookie?.toJSON?.() ?? session.cookie };
}

/**
 * Undefined if the cookie has no expiry: then the namespace's `ttlMs` applies. `new Date(0)`, by
 * which applications end a session, is no expiry to the store; the next millisecond is.
 */
export function lifetimeOf({ cookie }: SessionRecord): ExpiryOptions | undefined {
  const expires = cookie?.expires;
  return expires ? { expiresAt: Math.max(1, new Date(expires).getTime()) } : undefined;
}
