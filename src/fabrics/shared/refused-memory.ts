import { statfsSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname } from 'node:path';
import type { StepwellError } from '../../errors.ts';
import { poolFull } from './region.ts';

const MIB = 2 ** 20;
const { ENOMEM, EFBIG, ENOSPC, EDQUOT } = constants.errno;

/** Whether an error's number says that there is no room, and not that a call cannot be done. */
export function isFull(errno: number): boolean {
  return errno === ENOSPC || errno === EDQUOT || errno === EFBIG || errno === ENOMEM;
}

/** What lets a pool in a file hold more, while its file system has room. */
export const GROW = 'stepwell grow lets it hold more, or stepwell copy makes a larger one of it';

/** What lets a full pool in a file hold more, if another region takes `bytes`. */
export function remedyFor(path: string, bytes: number): string {
  const capacity = capacityOf(dirname(path));
  if (capacity === undefined || capacity.available >= bytes) return GROW;
  const { total } = capacity;
  const size = `${Math.round(total / MIB)} MiB`;
  return `remove records, or first make its file system (${size}) larger, which is full, too`;
}

/** The number of an error of Node, which is the system's own only on POSIX systems. */
export function errnoOf({ code, errno = 0 }: NodeJS.ErrnoException): number {
  const numbers: Readonly<Record<string, number | undefined>> = constants.errno;
  return numbers[code ?? ''] ?? -errno;
}

/** Capacity of a file system in bytes. */
export interface Capacity {
  total: number;
  available: number;
}

/** Capacity of the path's file system; undefined if the system reports none or sets no bound. */
export function capacityOf(path: string): Capacity | undefined {
  try {
    const { bsize, blocks, bavail } = statfsSync(path);
    // A tmpfs that was mounted without a bound has 0 blocks.
    return blocks > 0 ? { total: bsize * blocks, available: bsize * bavail } : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The system refused memory for a pool's file. `errno` is that of fallocate or of madvise, which
 * turns a full file system and a quota into a bad address.
 */
export function fileSystemRefused(path: string, errno: number): StepwellError {
  return poolFull(reasonOf(path, errno));
}

function reasonOf(path: string, errno: number): string {
  if (errno === EFBIG) return `${path} has reached the limit on a file's size (ulimit -f)`;
  if (errno === EDQUOT) return `the disk quota for ${path} is used up`;
  if (errno === ENOMEM) return `the system has no memory left for ${path}`;
  const capacity = capacityOf(dirname(path));
  const where = `the file system of ${path}`;
  if (capacity === undefined) return `${where} has no space left (errno ${errno})`;
  const { total, available } = capacity;
  const size = `${Math.round(total / MIB)} MiB`;
  // Pages that are left are fewer than one request asks for, unless a quota stands before them.
  if (available > MIB) return `${where} (${size}) refuses more of it, as by a quota`;
  const remedy = 'remove records or files, or make it larger (Docker: --shm-size)';
  return `${where} (${size}) is full; ${remedy}`;
}
