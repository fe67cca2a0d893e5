import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { StepwellError } from '../../errors.ts';
import { LocalPool } from '../../pool/local-pool.ts';
import { guardIo } from '../io-errors.ts';
import { attachFile } from '../places/pool-files.ts';
import { SHARED_MEMORY_PREFIX, sharedMemoryDirectory } from '../places/pool-place.ts';

/** A `shm:` pool of this machine. */
export interface PoolListing {
  url: string;
  path: string;
  /** Bytes that it takes now, and at most. */
  bytes: number;
  sizeMax: number;
  /** Clients that are alive, as far as this process can tell, and how many there can be. */
  clients: number;
  clientsMax: number;
  stores: string[];
  /**
   * Why nothing more is known, for example that it belongs to another user; undefined if all is
   * known.
   */
  problem?: string;
}

/** The `shm:` pools of this machine. Leaves out other files, and changes nothing. */
export function listPools(): PoolListing[] {
  const found: PoolListing[] = [];
  const directory = sharedMemoryDirectory();
  const names = guardIo(directory, directory, () => readdirSync(directory), 'list');
  for (const name of names.sort()) {
    if (!name.startsWith(SHARED_MEMORY_PREFIX) || name.endsWith('.new')) continue;
    const listing = describe(join(directory, name), name.slice(SHARED_MEMORY_PREFIX.length));
    if (listing !== undefined) found.push(listing);
  }
  return found;
}

function describe(path: string, name: string): PoolListing | undefined {
  const url = `shm:${name}`;
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat?.isFile()) return undefined;
  const known = { url, path, bytes: stat.blocks * 512 };
  try {
    return { ...known, ...look(path, url) };
  } catch (error) {
    if (!(error instanceof StepwellError)) throw error;
    if (error.code === 'SW_POOL_FOREIGN' || error.code === 'SW_POOL_NOT_FOUND') return undefined;
    const nothing = { sizeMax: 0, clients: 0, clientsMax: 0, stores: [] };
    return { ...known, ...nothing, problem: `${error.message} (${error.code})` };
  }
}

/** Takes no row, so that it also works if the client table is full. */
function look(path: string, url: string) {
  const { fabric, parameters, source } = attachFile(path, url);
  try {
    const pool = new LocalPool(fabric, parameters, source);
    const rows = pool.run(pool.membership.rows());
    const entries = pool.run(pool.catalog.entries());
    return {
      sizeMax: pool.layout.bytesMax,
      clients: pool.run(pool.membership.living(rows)).length,
      clientsMax: parameters.clientsMax,
      stores: entries.filter(({ ready }) => ready).map((entry) => entry.name),
    };
  } finally {
    source.close();
  }
}
