import session, { type SessionData } from 'express-session';
import type { AnyStore } from '../../helpers/host.ts';
import type { AsyncStore, Key } from '../../store/api.ts';
import { answer, lifetimeOf, sessionsOf, storedSession } from '../session-records.ts';
import { type AdapterValues, textOf } from '../space.ts';

export type { AdapterValues };

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
    this.#sessions = sessionsOf<SessionData>(store, options);
  }

  get(sid: string, done: Done<SessionData | null>): void {
    answer(async () => (await this.#sessions.get(sid)) ?? null, done);
  }

  set(sid: string, data: SessionData, done?: Done): void {
    answer(() => this.#sessions.set(sid, storedSession(data), lifetimeOf(data)), done);
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
