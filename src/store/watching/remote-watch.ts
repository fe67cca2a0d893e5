import type { TcpFabric } from '../../fabrics/tcp/client/tcp-fabric.ts';
import type { IndexPicture } from '../../indexes/picture.ts';
import type { RemotePool } from '../../pool/remote-pool.ts';
import type { Operation } from '../../verbs/index.ts';
import type { OpenOptions } from '../api.ts';
import { credentialsOf, parseRemote } from '../remote/address.ts';
import { attachRemote } from '../remote/attach.ts';
import { clientName } from '../store-in-pool.ts';
import { lookAtIndex, lookAtPool, type PoolLook } from './look.ts';

/** `PoolWatch` of a pool on memory nodes, whose secret for reading is enough. */
export class RemoteWatch {
  readonly #pool: RemotePool;
  readonly #fabric: TcpFabric;

  private constructor(pool: RemotePool, fabric: TcpFabric) {
    this.#pool = pool;
    this.#fabric = fabric;
  }

  static async open(url: string, options: OpenOptions): Promise<RemoteWatch> {
    const location = parseRemote(url);
    const credentials = credentialsOf(location, options);
    const client = clientName(options);
    const { pool, fabric } = await attachRemote(location, credentials, options, client, undefined);
    return new RemoteWatch(pool, fabric);
  }

  look(): Promise<PoolLook> {
    return this.#inPool(() => lookAtPool(this.#pool));
  }

  picture(store: string, partsMax: number): Promise<IndexPicture | undefined> {
    return this.#inPool(() => lookAtIndex(this.#pool, store, partsMax));
  }

  async #inPool<T>(operation: () => Operation<T>): Promise<T> {
    await this.#pool.enter();
    try {
      return await this.#pool.run(operation());
    } finally {
      this.#pool.exit();
    }
  }

  async close(): Promise<void> {
    try {
      await this.#pool.close();
    } finally {
      this.#fabric.close();
    }
  }
}
