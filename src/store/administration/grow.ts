import { closeSync, openSync } from 'node:fs';
import { StepwellError } from '../../errors.ts';
import { loadLibc } from '../../fabrics/shared/libc.ts';
import { fileSystemRefused } from '../../fabrics/shared/refused-memory.ts';
import { regionsForSize } from '../../pool/superblock.ts';
import { checkOptions } from '../calls/arguments.ts';
import { guardIo } from '../io-errors.ts';
import { withPool } from '../open.ts';
import { parseUrl } from '../places/pool-url.ts';
import { isRemote } from '../remote/address.ts';
import type { GrowReport } from '../reports.ts';

/**
 * Lets a pool on this machine hold more, while clients are attached: they need not open it again.
 * Also of a file that a memory node lends: its clients over the network have the room, too.
 *
 * @param options.size The most that the pool may hold, in bytes; rounded up to whole regions.
 * @throws StepwellError SW_INVALID_ARGUMENT for a size that the pool has already, or that takes
 *   more than 1024 of its regions; SW_UNSUPPORTED for `memory:`, whose buffers its threads already
 *   have, and for a pool over a network; SW_POOL_FULL when a memory node lends the file and the
 *   file system has no room for it.
 */
export function growSync(url: string, options: { size: number }): GrowReport {
  checkOptions(options, ['size']);
  refuseRemote(url);
  const location = parseUrl(url);
  if (location.kind === 'memory') {
    const why = 'threads that have it would not get its new buffers';
    throw new StepwellError('SW_UNSUPPORTED', `a memory: pool cannot grow: ${why}; make it larger`);
  }
  return withPool(url, ({ client: { pool } }) => {
    pool.run(pool.chunks.learnMaximum());
    const { parameters, bytesMax: before } = pool.layout;
    const regions = regionsForSize(options.size, parameters);
    if (regions <= pool.layout.regionsMax) {
      const why = `${url} may hold ${before} bytes already; a pool cannot be made smaller`;
      throw new StepwellError('SW_INVALID_ARGUMENT', why);
    }
    whileNotLent(location.path, url, regions * parameters.regionBytes, () => {
      pool.run(pool.chunks.raiseMaximum(regions));
    });
    return { before, sizeMax: pool.layout.bytesMax };
  });
}

/** As `growSync`, for code that awaits. */
export async function grow(url: string, options: { size: number }): Promise<GrowReport> {
  return growSync(url, options);
}

function refuseRemote(url: string): void {
  if (!isRemote(url)) return;
  throw new StepwellError(
    'SW_UNSUPPORTED',
    `${url} has the memory of its nodes: of one node that lends a file, stepwell grow file:PATH ` +
      'on its machine; else stepwell copy makes a larger pool of it',
  );
}

/**
 * A memory node takes all of its file from the file system, since its clients cannot have chunks
 * populated; while one lends the file, so does this. No node begins to lend it meanwhile.
 */
function whileNotLent(path: string, url: string, bytes: number, act: () => void): void {
  const fd = guardIo(url, path, () => openSync(path, 'r+'));
  try {
    const libc = loadLibc();
    if (!libc.lock(fd)) {
      const errno = libc.allocate(fd, bytes);
      if (errno !== 0) throw fileSystemRefused(path, errno);
    }
    act();
  } finally {
    closeSync(fd);
  }
}
