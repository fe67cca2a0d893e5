import { fstatSync, writeSync } from 'node:fs';
import { constants } from 'node:os';
import { StepwellError } from '../../errors.ts';
import { type Libc, mappingCalls } from './mapping.ts';
import { isFull } from './refused-memory.ts';
import type { Foreign } from './thread-ranges.ts';

const LOCK_EXCLUSIVE_AT_ONCE = 2 | 4;
const UNLOCK = 8;
const { EAGAIN } = constants.errno;
const PIECE_BYTES = 2 ** 20;
/** A client that lengthens the file writes a region; one that is stopped there keeps the lock. */
const ATTEMPTS_MAX = 3000;
const PAUSE_MS = 10;

/**
 * Pools in files on macOS, by `mmap` and `flock` alone. There is no call that makes sure of a page
 * of a sparse file, so a region is written when the file gets it. There are no locks of an open
 * file; whether a client is there, its process tells.
 */
export function macosCalls(libc: Foreign, koffi: Foreign): Libc {
  const flock = libc.func('int flock(int, int)');
  const lock = (fd: number) => flock(fd, LOCK_EXCLUSIVE_AT_ONCE) === 0 || koffi.errno() !== EAGAIN;
  const lengthen = (fd: number, bytes: number): number => {
    waitFor(() => lock(fd));
    try {
      return writeZeros(fd, bytes);
    } finally {
      flock(fd, UNLOCK);
    }
  };
  return {
    ...mappingCalls(libc, koffi),
    isSparse: false,
    lengthen,
    allocate: lengthen,
    lock,
    byteLocks: undefined,
    populate: () => 0,
  };
}

/** Two clients that lengthen a file must not write to what a third one uses already. */
function waitFor(lock: () => boolean): void {
  const nothing = new Int32Array(new SharedArrayBuffer(4));
  for (let attempt = 1; !lock(); attempt++) {
    if (attempt === ATTEMPTS_MAX) {
      const why = 'another client lengthens the pool file, and does not come to an end';
      throw new StepwellError('SW_CONTENTION', `${why}; continue or end its process`);
    }
    Atomics.wait(nothing, 0, 0, PAUSE_MS);
  }
}

/** From the file's end on. Returns 0 or the number of the error that says that there is no room. */
function writeZeros(fd: number, bytes: number): number {
  const zeros = new Uint8Array(PIECE_BYTES);
  try {
    for (let at = fstatSync(fd).size; at < bytes; ) {
      at += writeSync(fd, zeros, 0, Math.min(bytes - at, PIECE_BYTES), at);
    }
    return 0;
  } catch (error) {
    const errno = -((error as NodeJS.ErrnoException).errno ?? 0);
    if (isFull(errno)) return errno;
    throw error;
  }
}
