import { callbackify } from 'node:util';
import session, { type SessionData } from 'express-session';
import type { AnyStore } from '../../helpers/host.ts';
import type { AsyncStore, ExpiryOptions, Key } from '../../store/api.ts';
import { checkOptions } from '../../store/arguments.ts';
import { type AdapterValues, spaceOf, textOf } from '../space.ts';

export type { AdapterValues };

const DAY_MS = 86_400_000;

/** Options of `StepwellSessionStore`. */
export interface SessionStoreOptions {
  /** In front of each session's id. Default `session:`. */
  prefix?: string;
  /** How long a session lives whose cookie has no end, in milliseconds. Default: a day. */
  ttlMs?: number;
  /** How sessions are stored. Default `json`. */
  values?: AdapterValues<SessionData>;
}

type Done<T = void> = (error: unknown, result?: T) => void;

/**
 * A session store of express-session, which all workers, processes and machines share:
 * `session({ store: new StepwellSessionStore(store), … })`. A session expires with its cookie.
 * `touch` puts off when it expires and leaves what is in it alone, so it overwrites no other
 * request's change.
 */
export class StepwellSessionStore extends session.Store {
  readonly #sessions: AsyncStore<SessionData, Key, SessionData>;

  /**
   * @param store Any store or namespace; it stays the caller's to close.
   * @throws StepwellError SW_INVALID_ARGUMENT, SW_INVALID_KEY.
   */
  constructor(store: AnyStore, options: SessionStoreOptions = {}) {
    super();
    checkOptions(options, ['prefix', 'ttlMs', 'values']);
    const { prefix = 'session:', ttlMs = DAY_MS, values = 'json' } = options;
    this.#sessions = spaceOf<SessionData>(store, prefix, { values, ttlMs, sliding: false });
  }

  get(sid: string, done: Done<SessionData | null>): void {
    answer(async () => (await this.#sessions.get(sid)) ?? null, done);
  }

  set(sid: string, data: SessionData, done?: Done): void {
    answer(() => this.#sessions.set(sid, plain(data), lifetimeOf(data)), done);
  }

  override touch(sid: string, data: SessionData, done?: Done): void {
    answer(async () => {
      await this.#sessions.expire(sid, lifetimeOf(data));
    }, done);
  }

  destroy(sid: string, done?: Done): void {
    answer(async () => {
      await this.#sessions.delete(sid);
    }, done);
  }

  /** All sessions, by their ids. */
  override all(done: Done<{ [sid: string]: SessionData }>): void {
    answer(async () => {
      const found: { [sid: string]: SessionData } = Object.create(null);
      for await (const [sid, data] of this.#sessions) found[textOf(sid)] = data;
      return found;
    }, done);
  }

  override length(done: Done<number>): void {
    answer(() => this.#sessions.size(), done);
  }

  override clear(done?: Done): void {
    answer(async () => {
      await this.#sessions.clear();
    }, done);
  }
}

/** An error that the callback raises does not count as a failure of the store. */
function answer<T>(work: () => Promise<T>, done: Done<T> = () => {}): void {
  callbackify(work)(done);
}

/** Formats other than JSON would not ask a cookie what to store. */
function plain(data: SessionData): SessionData {
  const { cookie } = data as { cookie?: { toJSON?(): SessionData['cookie'] } };
  return { ...data, cookie: cookie?.toJSON?.() ?? data.cookie };
}

function lifetimeOf({ cookie }: SessionData): ExpiryOptions | undefined {
  const expires = cookie?.expires;
  return expires ? { expiresAt: new Date(expires).getTime() } : undefined;
}
