import { type } from 'node:os';
import type { ByteLocks } from './file-locks.ts';
import type { Foreign } from './thread-ranges.ts';

/**
 * Numbers of <fcntl.h>, and where the fields of `struct flock` are. Linux: type 16 | whence 16 | 32
 * | start 64 | length 64 | process 32 | 32. macOS: start 64 | length 64 | process 32 | type 16 |
 * whence 16. They follow the running system, even if a test asks for the other system's calls.
 */
const { F_OFD_SETLK, F_OFD_GETLK, F_WRLCK, F_UNLCK, TYPE, START, LENGTH } =
  type() === 'Darwin'
    ? { F_OFD_SETLK: 90, F_OFD_GETLK: 92, F_WRLCK: 3, F_UNLCK: 2, TYPE: 20, START: 0, LENGTH: 8 }
    : { F_OFD_SETLK: 37, F_OFD_GETLK: 36, F_WRLCK: 1, F_UNLCK: 2, TYPE: 0, START: 8, LENGTH: 16 };
const FLOCK_BYTES = 32;

/** Locks of open file descriptions, on Linux and macOS. */
export function openFileLocks(libc: Foreign, koffi: Foreign): ByteLocks {
  // Variadic: on arm64 macOS passes such an argument on the stack.
  const fcntl = libc.func('int fcntl(int, int, ...)');
  return {
    lockByte(fd, offset, taken) {
      const one = byteLock(taken ? F_WRLCK : F_UNLCK, offset);
      return fcntl(fd, F_OFD_SETLK, 'void *', one) === 0 ? 0 : koffi.errno();
    },
    isByteLocked(fd, offset) {
      const one = byteLock(F_WRLCK, offset);
      return fcntl(fd, F_OFD_GETLK, 'void *', one) !== 0 || one.readInt16LE(TYPE) !== F_UNLCK;
    },
  };
}

function byteLock(type: number, offset: bigint): Buffer {
  const one = Buffer.alloc(FLOCK_BYTES);
  one.writeInt16LE(type, TYPE);
  one.writeBigInt64LE(offset, START);
  one.writeBigInt64LE(1n, LENGTH);
  return one;
}
