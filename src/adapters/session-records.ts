import { callbackify } from 'node:util';
import type { AnyStore } from '../helpers/host.ts';
import type { AsyncStore, ExpiryOptions, Key } from '../store/api.ts';
import { checkOptions } from '../store/arguments.ts';
import { type AdapterValues, spaceOf } from './space.ts';

const DAY_MS = 86_400_000;

/** What stores of sessions read of a session: its cookie says when it expires. */
interface SessionRecord {
  cookie?: { expires?: Date | string | null | undefined };
}

/**
 * The namespace of a session store. Raises SW_INVALID_ARGUMENT and SW_INVALID_KEY.
 */
export function sessionsOf<S>(
  store: AnyStore,
  options: { prefix?: string; ttlMs?: number; values?: AdapterValues<S> },
): AsyncStore<S, Key, S> {
  checkOptions(options, ['prefix', 'ttlMs', 'values']);
  const { prefix = 'session:', ttlMs = DAY_MS, values = 'json' } = options;
  return spaceOf<S>(store, prefix, { values, ttlMs, sliding: false });
}

/** Calls back, as libraries of sessions expect. An error that the callback raises is its own. */
export function answer<T>(
  work: () => Promise<T>,
  done: (error: unknown, result?: T) => void = () => {},
): void {
  callbackify(work)(done);
}

/** The session as it is stored. Formats other than JSON would not ask a cookie what to store. */
export function storedSession<S extends SessionRecord>(session: S): S {
  const { cookie } = session as { cookie?: { toJSON?(): S['cookie'] } };
  return { ...session, cookie: cookie?.toJSON?.() ?? session.cookie };
}

/** A session whose cookie has no expiry lives as long as the store says. */
export function lifetimeOf({ cookie }: SessionRecord): ExpiryOptions | undefined {
  const expires = cookie?.expires;
  return expires ? { expiresAt: new Date(expires).getTime() } : undefined;
}
