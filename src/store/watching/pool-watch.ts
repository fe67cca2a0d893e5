import type { IndexPicture } from '../../indexes/picture.ts';
import type { PoolLook } from '../administration/look.ts';
import type { OpenOptions, PoolHandle } from '../api.ts';
import { ownClient } from '../open.ts';

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
  const client = await ownClient(url, { ...options, create: false, readOnly: true });
  return {
    look: async () => client.perform('look'),
    picture: async (store, partsMax) => client.perform('picture', store, partsMax),
    close: async () => client.close(),
  };
}
