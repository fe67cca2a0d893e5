import type { PoolIdentity } from '../places/pool-place.ts';
import type { LocalClient } from './local-client.ts';

/**
 * Not in the registry of symbols: another copy of this package in the thread, of whatever version,
 * has another symbol and so clients of its own. Objects of one copy are never handed to another.
 */
const CLIENTS = Symbol('stepwell.clients');

/**
 * The clients of a thread, so that the stores of one pool share one. The thread's global object has
 * them: each thread has one such object, and it ends with the thread.
 */
export class ThreadClients {
  readonly #shared = new Map<PoolIdentity, LocalClient>();
  readonly #all = new Set<LocalClient>();

  /** Those of this thread. */
  static ofThread(): ThreadClients {
    const thread = globalThis as typeof globalThis & { [CLIENTS]?: ThreadClients };
    let clients = thread[CLIENTS];
    if (clients === undefined) {
      const made = new ThreadClients();
      clients = made;
      Object.defineProperty(thread, CLIENTS, { value: made });
      // A process that simply ends gives its memory back at once; one that is killed is found out
      // later.
      process.on('exit', () => made.#endAll());
    }
    return clients;
  }

  /** The client that the stores of this pool share. */
  shared(identity: PoolIdentity): LocalClient | undefined {
    return this.#shared.get(identity);
  }

  /** With an identity, the client is the one that stores of the pool share from now on. */
  add(client: LocalClient, identity?: PoolIdentity): void {
    this.#all.add(client);
    if (identity !== undefined) this.#shared.set(identity, client);
  }

  remove(client: LocalClient): void {
    this.#all.delete(client);
    for (const [identity, one] of this.#shared) if (one === client) this.#shared.delete(identity);
  }

  /** Each finds out at once whether its pool or one of its stores is gone. */
  lookAgain(): void {
    for (const client of this.#all) client.pool.lookAgain();
  }

  #endAll(): void {
    for (const client of [...this.#all]) client.end();
  }
}
