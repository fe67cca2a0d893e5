import { closeSync, openSync } from 'node:fs';
import { StepwellError } from '../../errors.ts';
import { FileLocks, LOCK_HELD } from '../../fabrics/shared/file-locks.ts';
import { loadLibc } from '../../fabrics/shared/libc.ts';
import { fileSystemRefused } from '../../fabrics/shared/refused-memory.ts';
import { NODE_REGIONS_MAX } from '../../fabrics/tcp/wire.ts';
import { regionsForSize } from '../../pool/superblock.ts';
import type { Size } from '../api.ts';
import { checkOptions, invalid, unsupported } from '../arguments.ts';
import { guardIo } from '../io-errors.ts';
import { attach } from '../open.ts';
import { parseUrl } from '../places/pool-place.ts';
import { isRemote } from '../remote/address.ts';
import type { GrowReport } from '../reports.ts';
import { bytesOf } from '../sizes.ts';

/** Behind the locks of a pool's clients. */
export const GROWER_LOCK: number = 2 ** 20;

/**
 * Lets a pool on this machine hold more, while clients are attached: they need not open it again.
 * If a memory node lends the pool's file, clients over the network can use the room, too.
 *
 * @param options.size The most that the pool may hold; rounded up to whole regions.
 * @throws StepwellError SW_INVALID_ARGUMENT for a size that the pool has already, or that takes
 *   more than 1024 of its regions, or 1023 of a file that a memory node lends; SW_POOL_BUSY while
 *   another process raises it; SW_UNSUPPORTED for `memory:`, whose buffers its threads already
 *   have, and for a pool over a network; SW_POOL_FULL when a memory node lends the file and the
 *   file system has no room for it.
 */
export function growSync(url: string, options: { size: Size }): GrowReport {
  checkOptions(options, ['size']);
  if (isRemote(url)) {
    const remedy =
      'of one node that lends a file, stepwell grow file:PATH on its machine; else stepwell copy ' +
      'makes a larger pool of it';
    throw unsupported(`${url} has the memory of its nodes: ${remedy}`);
  }
  const location = parseUrl(url);
  if (location.kind === 'memory') {
    const why = 'threads that have it would not get its new buffers';
    throw unsupported(`a memory: pool cannot grow: ${why}; make it larger`);
  }
  const { client } = attach(url, { create: false });
  const { pool } = client;
  try {
    pool.run(pool.chunks.learnMaximum());
    const { parameters, bytesMax: before } = pool.layout;
    const regions = regionsForSize(bytesOf('size', options.size), parameters);
    if (regions <= pool.layout.regionsMax) {
      const why = `${url} may hold ${before} bytes already; a pool cannot be made smaller`;
      throw invalid(why);
    }
    whileNotLent(location.path, url, { regions, regionBytes: parameters.regionBytes }, () => {
      pool.run(pool.chunks.raiseMaximum(regions));
    });
    return { before, sizeMax: pool.layout.bytesMax };
  } finally {
    client.end();
  }
}

/** As `growSync`, for code that awaits. */
export async function grow(url: string, options: { size: Size }): Promise<GrowReport> {
  return growSync(url, options);
}

/**
 * A memory node allocates its whole file in the file system, since its clients cannot have chunks
 * populated. So while a node lends the file, growing does the same. No node can begin to lend the
 * file meanwhile. A second grower is refused: it would take the first grower's lock for a node's.
 */
function whileNotLent(
  path: string,
  url: string,
  { regions, regionBytes }: { regions: number; regionBytes: number },
  act: () => void,
): void {
  const reopen = () => guardIo(url, path, () => openSync(path, 'r+'));
  const fd = reopen();
  const libc = loadLibc();
  const locks = new FileLocks(libc.byteLocks, fd, reopen);
  try {
    if (locks.take(GROWER_LOCK) === LOCK_HELD) {
      throw new StepwellError('SW_POOL_BUSY', `another process raises ${url}; try again`);
    }
    // Memory nodes lend files only on Linux. Elsewhere a client that lengthens it has the lock.
    if (libc.isSparse && !libc.lock(fd)) {
      if (regions > NODE_REGIONS_MAX) {
        const why = `a memory node lends ${path}, and at most ${NODE_REGIONS_MAX} regions of it`;
        throw invalid(`${why}: ${url} cannot have ${regions}`);
      }
      const errno = libc.allocate(fd, regions * regionBytes);
      if (errno !== 0) throw fileSystemRefused(path, errno);
    }
    act();
  } finally {
    locks.close();
    closeSync(fd);
  }
}
