import {
  closeSync,
  fstatSync,
  openSync,
  readSync,
  realpathSync,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { hasCode, StepwellError } from '../../errors.ts';
import { loadLibc } from '../../fabrics/shared/libc.ts';
import type { ClientRow } from '../../pool/clients/membership.ts';
import { SUPERBLOCK } from '../../pool/layout.ts';
import { LocalPool } from '../../pool/local-pool.ts';
import { hasMagic, isMarkedDestroyed, SUPERBLOCK_BYTES } from '../../pool/superblock.ts';
import { guardIo } from '../io-errors.ts';
import { attachFile } from './pool-files.ts';

/**
 * Takes a pool's file away. Clients that still have it open are told by a mark in the superblock,
 * which they read at every quiescent point. The mark is written before the file's name goes:
 *
 * - A destroyer that dies in between leaves a marked file, which no client opens any more. The next
 *   process that wants to make a pool there takes the file away first.
 * - The file is locked meanwhile, and its name is looked up again under the lock. So of two
 *   destroyers the late one does not take away the pool that was made after the first.
 *
 * Raises SW_POOL_BUSY while a living client is attached, unless forced, and while a memory node
 * lends the file; SW_POOL_FOREIGN for what never was a pool.
 */
export function destroyFile(path: string, url: string, force: boolean): void {
  const fd = guardIo(url, path, () => openSync(path, 'r+'));
  try {
    const head = headOf(fd, path, url);
    // A damaged pool may be removed by force, a file that never was one may not.
    if (!hasMagic(head))
      throw new StepwellError('SW_POOL_FOREIGN', `${url} is not a Stepwell pool`);
    if (!force && !isMarkedDestroyed(head)) refuseWhileBusy(path, url);
    lock(fd, path, url);
    markAndUnlink(fd, path, url);
  } finally {
    closeSync(fd);
  }
}

/**
 * Completes what a destroyer has begun before it died. Whether the name is free now; false when a
 * file has it that no client was destroying.
 */
export function finishDestroying(path: string, url: string): boolean {
  try {
    return finish(path, url);
  } catch (error) {
    if (hasCode(error, 'SW_POOL_NOT_FOUND')) return true;
    throw error;
  }
}

function finish(path: string, url: string): boolean {
  const fd = guardIo(url, path, () => openSync(path, 'r+'));
  try {
    // Without the lock at first: a memory node may have it for a file that is in use.
    if (!isMarkedDestroyed(headOf(fd, path, url))) return false;
    lock(fd, path, url);
    // Its destroyer may have lived, failed and taken the mark back.
    if (!isMarkedDestroyed(headOf(fd, path, url))) return false;
    unlink(path, url);
    return true;
  } finally {
    closeSync(fd);
  }
}

function headOf(fd: number, path: string, url: string): Uint8Array {
  const head = new Uint8Array(SUPERBLOCK_BYTES);
  guardIo(url, path, () => readSync(fd, head, 0, SUPERBLOCK_BYTES, 0));
  return head;
}

/** Under the lock the name is looked up again. */
function lock(fd: number, path: string, url: string): void {
  if (!loadLibc().lock(fd)) {
    const why = 'a memory node lends it, or another process destroys it';
    throw new StepwellError('SW_POOL_BUSY', `${url} is in use: ${why}`);
  }
  const { dev, ino } = fstatSync(fd, { bigint: true });
  const now = guardIo(url, path, () => statSync(path, { bigint: true, throwIfNoEntry: false }));
  if (now?.dev !== dev || now.ino !== ino) {
    throw new StepwellError('SW_POOL_NOT_FOUND', `no pool at ${url}: another process destroyed it`);
  }
}

/**
 * The system may refuse the second step (a directory of another user, a sticky one such as
 * /dev/shm, a file that is a mount): then the mark goes, and the pool is there as before. A client
 * that has seen the mark in between raises SW_POOL_DESTROYED and can open the pool again. A mark
 * that a dead destroyer left stays.
 */
function markAndUnlink(fd: number, path: string, url: string): void {
  const isMarked = isMarkedDestroyed(headOf(fd, path, url));
  mark(fd, path, url, 1);
  try {
    unlink(path, url);
  } catch (error) {
    if (!isMarked) mark(fd, path, url, 0);
    throw error;
  }
}

function mark(fd: number, path: string, url: string, value: 0 | 1): void {
  // A file that was cut off is not made longer.
  if (fstatSync(fd).size < SUPERBLOCK_BYTES) return;
  guardIo(url, path, () => writeSync(fd, Uint8Array.of(value), 0, 1, SUPERBLOCK.destroyed));
}

/** A link to the file stays. */
function unlink(path: string, url: string): void {
  const file = guardIo(url, path, () => realpathSync(path));
  guardIo(url, file, () => unlinkSync(file), 'remove');
}

function refuseWhileBusy(path: string, url: string): void {
  const { fabric, source, parameters } = attachFile(path, url);
  try {
    const pool = new LocalPool(fabric, parameters, source);
    const rows = pool.run(pool.membership.rows());
    const living = rows.filter((row) => !pool.run(pool.membership.isGone(row)));
    if (living.length === 0) return;
    const why = `in use by ${namesOf(living).join(', ')}; end these, or use force (--force)`;
    throw new StepwellError('SW_POOL_BUSY', `${url} is ${why}`);
  } finally {
    source.close();
  }
}

/** Clients as a message names them. */
export function namesOf(rows: readonly ClientRow[]): string[] {
  return [...new Set(rows.map(({ name, thread }) => `process ${thread.pid} (${name})`))];
}
