import type { Credentials } from '../../fabrics/tcp/client/queue-pair.ts';
import type { OpenOptions } from '../api.ts';
import { clientName } from '../store-in-pool.ts';
import type { RemoteLocation } from './address.ts';
import { attachRemote, refuseOtherPool } from './attach.ts';
import type { RemoteClients } from './remote-clients.ts';
import { RemoteClient, type Session } from './session.ts';

/** Opens one session after the other of the same store. */
export class SessionOpener {
  readonly #location: RemoteLocation;
  readonly #credentials: Credentials;
  readonly #options: OpenOptions;
  readonly #clients: RemoteClients;

  constructor(
    location: RemoteLocation,
    credentials: Credentials,
    options: OpenOptions,
    clients: RemoteClients,
  ) {
    this.#location = location;
    this.#credentials = credentials;
    this.#options = options;
    this.#clients = clients;
  }

  /**
   * With a former session nothing is created: a node that lost its memory is an error, and so is
   * another pool in the place of the former session's.
   */
  open(former?: Session): Promise<Session> {
    const options = former ? { ...this.#options, create: false } : this.#options;
    const { endpoints, fabric, url } = this.#location;
    const credentials = this.#credentials;
    const { delegation = false, readOnly = false, hotspots, lockTimeoutMs } = options;
    const own = { delegation, hotspots, lockTimeoutMs };
    const entrance = { endpoints, fabric, credentials, readOnly, ...own };
    return this.#clients.open(entrance, options, {
      attach: () => this.#attach(options, former?.client),
      accept: ({ poolId }) => former && refuseOtherPool(poolId, former.client.poolId, url),
    });
  }

  async #attach(options: OpenOptions, former: RemoteClient | undefined): Promise<RemoteClient> {
    const { pool, fabric, parameters } = await attachRemote(
      this.#location,
      this.#credentials,
      options,
      clientName(options),
      former && { session: former.fabric.session, poolId: former.poolId },
    );
    return new RemoteClient(fabric, pool, parameters.poolId);
  }
}
