import type { IndexPicture } from '../../indexes/picture.ts';
import type { PoolLook } from '../administration/look.ts';
import type { PoolClient } from '../administration/tasks.ts';
import type { OpenOptions, PoolHandle } from '../api.ts';
import { poolOf } from '../handle.ts';
import { LocalPoolClient } from '../local/local-client.ts';
import { attach } from '../open.ts';
import { isRemote } from '../remote/address.ts';
import { RemotePoolClient } from '../remote/administer.ts';

/** A client that looks at a pool again and again, and changes nothing but its own row. */
export interface PoolWatch {
  /** Raises what the fabric raises; the watch is then of no more use. */
  look(): Promise<PoolLook>;
  /** Reads up to `partsMax` parts of each layer; undefined when there is no such store. */
  picture(store: string, partsMax: number): Promise<IndexPicture | undefined>;
  close(): Promise<void>;
}

/**
 * Attaches to a pool that is there; on memory nodes their secret for reading is enough. Raises
 * SW_POOL_NOT_FOUND and what `open` raises.
 */
export async function watchPool(
  url: string | PoolHandle,
  options: Pick<OpenOptions, 'client' | 'secret' | 'tls'> = {},
): Promise<PoolWatch> {
  const pool = poolOf(url);
  const reading = { ...options, create: false, readOnly: true };
  const client: PoolClient = isRemote(pool)
    ? await RemotePoolClient.attach(pool, reading)
    : new LocalPoolClient(attach(url, reading).client, '');
  return {
    look: async () => client.perform('look'),
    picture: async (store, partsMax) => client.perform('picture', store, partsMax),
    close: async () => client.close(),
  };
}
