import { constants } from 'node:os';
import { StepwellError } from '../../errors.ts';
import { type Libc, mappingCalls } from './mapping.ts';
import { openFileLocks } from './open-file-locks.ts';
import { isFull } from './refused-memory.ts';
import { type Foreign, ThreadRanges } from './thread-ranges.ts';

const MADV_HUGEPAGE = 14;
const MADV_POPULATE_WRITE = 23;
const { EINTR, EAGAIN, EINVAL } = constants.errno;
/** A call that fails with EINTR or EAGAIN this often in a row will not succeed. */
const ATTEMPTS_MAX = 1000;
const PAGE_BYTES = 4096;
const LOCK_EXCLUSIVE_AT_ONCE = 2 | 4;

/** Pools in files on Linux: sparse files, whose pages are reserved as the pool fills. */
export function linuxCalls(koffi: Foreign): Libc {
  const libc = koffi.load(null);
  const calls = mappingCalls(libc, koffi, ThreadRanges.find(libc, koffi));
  const madvise = libc.func('int madvise(void *, size_t, int)');
  const flock = libc.func('int flock(int, int)');
  const fallocate = libc.func('int fallocate(int, int, int64_t, int64_t)');
  const errorOf = (call: () => number): number => {
    for (let attempt = 1; ; attempt++) {
      if (call() === 0) return 0;
      const errno = koffi.errno();
      if ((errno !== EINTR && errno !== EAGAIN) || attempt === ATTEMPTS_MAX) return errno;
    }
  };
  const allocateRange = (fd: number, offset: number, bytes: number): number => {
    const errno = errorOf(() => fallocate(fd, 0, offset, bytes));
    if (errno === 0 || isFull(errno)) return errno;
    throw new StepwellError(
      'SW_UNSUPPORTED',
      `this file system cannot hold a growing pool (fallocate: errno ${errno}); ` +
        'create the pool with regionSize equal to size',
    );
  };
  return {
    mapShared(fd, offset, bytes) {
      const mapping = calls.mapShared(fd, offset, bytes);
      madvise(mapping.address, bytes, MADV_HUGEPAGE);
      return mapping;
    },
    release: calls.release,
    publish: calls.publish,
    isSparse: true,
    // Allocating the last page moves the end of the file forward only; ftruncate could undo a
    // longer file that another client has just made.
    lengthen: (fd, bytes) => allocateRange(fd, bytes - PAGE_BYTES, PAGE_BYTES),
    allocate: (fd, bytes) => allocateRange(fd, 0, bytes),
    lock: (fd) => flock(fd, LOCK_EXCLUSIVE_AT_ONCE) === 0 || koffi.errno() !== EAGAIN,
    byteLocks: openFileLocks(libc, koffi),
    populate({ address }, offset, bytes) {
      const start = address + BigInt(offset);
      const errno = errorOf(() => madvise(start, bytes, MADV_POPULATE_WRITE));
      // Kernels before 5.14 do not know this advice: they allocate pages at the first touch.
      return errno === EINVAL ? 0 : errno;
    },
  };
}
