import type { Credentials } from '../../fabrics/tcp/client/queue-pair.ts';
import type { OpenOptions } from '../api.ts';
import { clientName, openStore } from '../store-in-pool.ts';
import type { RemoteLocation } from './address.ts';
import { attachRemote } from './attach.ts';
import { Session } from './session.ts';

/** Opens one session after the other of the same store. */
export class SessionOpener {
  readonly #location: RemoteLocation;
  readonly #credentials: Credentials;
  readonly #options: OpenOptions;

  constructor(location: RemoteLocation, credentials: Credentials, options: OpenOptions) {
    this.#location = location;
    this.#credentials = credentials;
    this.#options = options;
  }

  /**
   * With a former session nothing is created: a node that lost its memory is an error, and so is
   * another pool in the place of the former session's.
   */
  async open(former?: Session): Promise<Session> {
    const options = former ? { ...this.#options, create: false } : this.#options;
    const { pool, fabric, parameters } = await attachRemote(
      this.#location,
      this.#credentials,
      options,
      clientName(options),
      former && { session: former.fabric.session, poolId: former.poolId },
    );
    try {
      const { index, store } = await pool.run(openStore(pool, options));
      return new Session(fabric, pool, index, store, parameters.poolId);
    } catch (error) {
      await pool.close().catch(() => {});
      fabric.close();
      throw error;
    }
  }
}
