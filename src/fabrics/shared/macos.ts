import { constants } from 'node:os';
import { type Libc, mappingCalls } from './mapping.ts';
import { openFileLocks } from './open-file-locks.ts';
import type { Foreign } from './thread-ranges.ts';
import { FILE_LOCK, writtenFiles } from './written-files.ts';

const { EAGAIN, EACCES } = constants.errno;
const LOCK_EXCLUSIVE_AT_ONCE = 2 | 4;
const UNLOCK = 8;

/**
 * Pools in files on macOS. No call there reserves a page of a sparse file, so a region is written
 * with zeros when it is added.
 *
 * The file's lock is a byte's, because there `flock` conflicts with the locks of bytes: it would
 * find those of the clients. A kernel or a file system without locks of open files has no clients'
 * locks either. Then `flock` locks the file, and a client counts as alive while its process exists.
 */
export function macosCalls(koffi: Foreign): Libc {
  const libc = koffi.load(null);
  const flock = libc.func('int flock(int, int)');
  const byteLocks = openFileLocks(libc, koffi);
  const lock = (fd: number): boolean => {
    const errno = byteLocks.lockByte(fd, FILE_LOCK, true);
    if (errno === 0 || errno === EAGAIN || errno === EACCES) return errno === 0;
    return flock(fd, LOCK_EXCLUSIVE_AT_ONCE) === 0 || koffi.errno() !== EAGAIN;
  };
  const unlock = (fd: number): void => {
    if (byteLocks.lockByte(fd, FILE_LOCK, false) !== 0) flock(fd, UNLOCK);
  };
  return { ...mappingCalls(libc, koffi), ...writtenFiles(lock, unlock), byteLocks };
}
