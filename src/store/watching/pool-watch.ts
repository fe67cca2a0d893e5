import type { IndexPicture } from '../../indexes/picture.ts';
import type { OpenOptions, PoolHandle } from '../api.ts';
import { poolOf } from '../handle.ts';
import { type Attachment, attach } from '../open.ts';
import { isRemote } from '../remote/address.ts';
import { lookAtIndex, lookAtPool, type PoolLook } from './look.ts';
import { RemoteWatch } from './remote-watch.ts';

/** A client that looks at a pool again and again, and changes nothing but its own row. */
export interface PoolWatch {
  /** Raises what the fabric raises; the watch is then of no more use. */
  look(): Promise<PoolLook>;
  /** Reads up to `partsMax` parts of each layer; undefined when there is no such store. */
  picture(store: string, partsMax: number): Promise<IndexPicture | undefined>;
  close(): Promise<void>;
}

/** Attaches to a pool that is there. Raises SW_POOL_NOT_FOUND and what `open` raises. */
export async function watchPool(
  url: string | PoolHandle,
  options: Pick<OpenOptions, 'client' | 'secret' | 'tls'> = {},
): Promise<PoolWatch> {
  const pool = poolOf(url);
  const reading = { ...options, create: false, readOnly: true };
  return isRemote(pool)
    ? await RemoteWatch.open(pool, reading)
    : new LocalWatch(attach(url, reading));
}

/** Of a pool that this thread can address. */
class LocalWatch implements PoolWatch {
  readonly #attachment: Attachment;

  constructor(attachment: Attachment) {
    this.#attachment = attachment;
  }

  async look(): Promise<PoolLook> {
    const { pool } = this.#attachment.client;
    pool.enter();
    try {
      return pool.run(lookAtPool(pool));
    } finally {
      pool.exit();
    }
  }

  async picture(store: string, partsMax: number): Promise<IndexPicture | undefined> {
    const { pool } = this.#attachment.client;
    pool.enter();
    try {
      return pool.run(lookAtIndex(pool, store, partsMax));
    } finally {
      pool.exit();
    }
  }

  async close(): Promise<void> {
    this.#attachment.client.end();
  }
}
