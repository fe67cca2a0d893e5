import { isDeepStrictEqual } from 'node:util';
import { hasCode, StepwellError } from '../../errors.ts';
import type { Credentials } from '../../fabrics/tcp/client/queue-pair.ts';
import type { Endpoint } from '../../fabrics/tcp/endpoint.ts';
import type { OpenOptions } from '../api.ts';
import type { RemoteClient, Session } from './session.ts';

/** Not in the registry of symbols; see `ThreadClients`. */
const CLIENTS = Symbol('stepwell.remoteClients');

/** Each further one means that a client has ended since the last one. */
const ATTEMPTS_MAX = 10;

/** What the stores that share a client have in common. */
export interface Entrance {
  endpoints: readonly Endpoint[];
  /** By what verbs reach them. */
  fabric: 'tcp' | 'ucx';
  credentials: Credentials;
  /** Of the index, which handles of one store share. */
  delegation: boolean;
  hotspots: number | undefined;
  lockTimeoutMs: number | undefined;
  /** Such a client cleans up after no other. */
  readOnly: boolean;
}

export interface ClientOpener {
  attach(): Promise<RemoteClient>;
  /** Raises what a client is refused for that another store has attached. */
  accept(client: RemoteClient): void;
}

interface Attached {
  entrance: Entrance;
  client: Promise<RemoteClient>;
  /** Once it is attached. */
  made?: RemoteClient;
}

/**
 * The clients by which a thread's stores on memory nodes share connections and rows: one for each
 * pool, as its URL spells it, and way to be let in.
 */
export class RemoteClients {
  #attached: Attached[] = [];

  /** Those of this thread. */
  static ofThread(): RemoteClients {
    const thread = globalThis as typeof globalThis & { [CLIENTS]?: RemoteClients };
    if (thread[CLIENTS] === undefined) {
      Object.defineProperty(thread, CLIENTS, { value: new RemoteClients() });
    }
    return thread[CLIENTS] as RemoteClients;
  }

  /** Opens a store by the client of its entrance, which `opener` makes where there is none. */
  async open(entrance: Entrance, options: OpenOptions, opener: ClientOpener): Promise<Session> {
    // Else the connections of clients that have ended would stay in memory.
    this.#attached = this.#attached.filter(({ made }) => !made?.over);
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const known = this.#attached.find((one) => isDeepStrictEqual(one.entrance, entrance));
      const { client } = known ?? this.#attach(entrance, opener);
      const shared = known === undefined ? await client : await made(client);
      if (shared === undefined) continue;
      if (!shared.over) {
        opener.accept(shared);
        const session = await shared.open(options);
        if (session !== undefined) return session;
      }
      this.#forget(client);
    }
    throw new StepwellError('SW_CONTENTION', 'the clients of this thread end again and again');
  }

  #attach(entrance: Entrance, opener: ClientOpener): Attached {
    const attached: Attached = { entrance, client: opener.attach() };
    this.#attached.push(attached);
    attached.client.then(
      (client) => {
        attached.made = client;
      },
      () => this.#forget(attached.client),
    );
    return attached;
  }

  #forget(client: Promise<RemoteClient>): void {
    this.#attached = this.#attached.filter((one) => one.client !== client);
  }

  /** Each lets go of stores that were closed, and finds out at once which were dropped. */
  async lookAgain(): Promise<void> {
    const clients = await Promise.allSettled(this.#attached.map(({ client }) => client));
    const found = clients.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    await Promise.allSettled(found.map(({ pool }) => pool.lookAgain()));
  }
}

/** What another store's opening has made; undefined when it failed by what that one asked for. */
async function made(client: Promise<RemoteClient>): Promise<RemoteClient | undefined> {
  try {
    return await client;
  } catch (error) {
    if (hasCode(error, 'SW_NODE_UNREACHABLE')) throw error;
    return undefined;
  }
}
