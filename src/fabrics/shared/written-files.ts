import { fstatSync, writeSync } from 'node:fs';
import { StepwellError } from '../../errors.ts';
import type { Libc } from './mapping.ts';
import { errnoOf, isFull } from './refused-memory.ts';

/** The byte whose lock is that of the whole file, far from the data and from the clients' locks. */
export const FILE_LOCK: bigint = 2n ** 61n;
const PIECE_BYTES = 2 ** 20;
/** A client holds the lock while it writes a region; a client stopped meanwhile keeps it. */
const LENGTHEN_ATTEMPTS_MAX = 3000;
const PAUSE_MS = 10;

/**
 * Files on systems that cannot reserve a page of a sparse file: each region is written with zeros
 * when it is added. The file's end moves only behind what has been written, and only forward.
 */
export function writtenFiles(
  lock: (fd: number) => boolean,
  unlock: (fd: number) => void,
): Pick<Libc, 'isSparse' | 'lengthen' | 'allocate' | 'lock' | 'populate'> {
  const lengthen = (fd: number, bytes: number): number => {
    waitFor(() => lock(fd));
    try {
      return writeZeros(fd, bytes);
    } finally {
      unlock(fd);
    }
  };
  return { isSparse: false, lengthen, allocate: lengthen, lock, populate: () => 0 };
}

/** A client that lengthens the file must not overwrite what others already use. */
function waitFor(lock: () => boolean): void {
  const nothing = new Int32Array(new SharedArrayBuffer(4));
  for (let attempt = 1; !lock(); attempt++) {
    if (attempt === LENGTHEN_ATTEMPTS_MAX) {
      const why = 'another client lengthens the pool file, and does not come to an end';
      throw new StepwellError('SW_CONTENTION', `${why}; continue or end its process`);
    }
    Atomics.wait(nothing, 0, 0, PAUSE_MS);
  }
}

/** Writes from the file's end on. Returns 0, or the error number if there is no space. */
function writeZeros(fd: number, bytes: number): number {
  const zeros = new Uint8Array(PIECE_BYTES);
  try {
    for (let at = fstatSync(fd).size; at < bytes; ) {
      at += writeSync(fd, zeros, 0, Math.min(bytes - at, PIECE_BYTES), at);
    }
    return 0;
  } catch (error) {
    const errno = errnoOf(error as NodeJS.ErrnoException);
    if (isFull(errno)) return errno;
    throw error;
  }
}
