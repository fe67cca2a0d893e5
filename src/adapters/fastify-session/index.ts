import type { AnyStore } from '../../helpers/host.ts';
import type { AsyncStore, Key } from '../../store/api.ts';
import { answer, lifetimeOf, sessionsOf, storedSession } from '../session-records.ts';
import type { AdapterValues } from '../space.ts';

export type { AdapterValues };

/** A session of @fastify/session. */
export interface SessionData {
  /** Says when the session expires. */
  cookie: { expires?: Date | null };
}

/** Options of `StepwellSessionStore`. */
export interface SessionStoreOptions {
  /** In front of each session's id. Default `session:`. */
  prefix?: string;
  /** How long a session lives whose cookie has no expiry, in milliseconds. Default: a day. */
  ttlMs?: number;
  /** How sessions are stored. Default `json`. */
  values?: AdapterValues<SessionData>;
}

// biome-ignore lint/suspicious/noExplicitAny: applications add what they like to its session type
type Done<T = any> = (error: unknown, result?: T) => void;

/**
 * A session store of @fastify/session, which all workers, processes and machines share:
 * `app.register(session, { store: new StepwellSessionStore(store), … })`. A session expires with
 * its cookie.
 */
export class StepwellSessionStore {
  readonly #sessions: AsyncStore<SessionData, Key, SessionData>;

  /**
   * @param store Any store or namespace; it stays the caller's to close.
   * @throws StepwellError SW_INVALID_ARGUMENT, SW_INVALID_KEY.
   */
  constructor(store: AnyStore, options: SessionStoreOptions = {}) {
    this.#sessions = sessionsOf<SessionData>(store, options);
  }

  get(sid: string, done: Done): void {
    answer(async () => (await this.#sessions.get(sid)) ?? null, done);
  }

  set(sid: string, data: SessionData, done?: Done<void>): void {
    answer(() => this.#sessions.set(sid, storedSession(data), lifetimeOf(data)), done);
  }

  destroy(sid: string, done?: Done<void>): void {
    answer(async () => {
      await this.#sessions.delete(sid);
    }, done);
  }
}
