import { fstatSync, writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { constants } from 'node:os';
import { StepwellError } from '../../errors.ts';
import { barrierOf } from './barrier.ts';
import type { ByteLocks } from './file-locks.ts';
import { type Libc, mappingCalls } from './mapping.ts';
import { isFull } from './refused-memory.ts';
import { type Foreign, ThreadRanges } from './thread-ranges.ts';

export type { Foreign } from './thread-ranges.ts';

const MADV_HUGEPAGE = 14;
const MADV_POPULATE_WRITE = 23;
const { EINTR, EAGAIN, EINVAL } = constants.errno;
/** A call that fails with EINTR or EAGAIN this often in a row will not succeed. */
const ATTEMPTS_MAX = 1000;
const PAGE_BYTES = 4096;
const LOCK_EXCLUSIVE_AT_ONCE = 2 | 4;
const F_OFD_GETLK = 36;
const F_OFD_SETLK = 37;
const F_WRLCK = 1;
const F_UNLCK = 2;
/** Bytes of `struct flock`: type 16 | whence 16 | 32 | start 64 | length 64 | process 32 | 32. */
const FLOCK_BYTES = 32;

function byteLocks(libc: Foreign, koffi: Foreign): ByteLocks {
  const fcntl = libc.func('int fcntl(int, int, void *)');
  return {
    lockByte(fd, offset, taken) {
      const one = byteLock(taken ? F_WRLCK : F_UNLCK, offset);
      return fcntl(fd, F_OFD_SETLK, one) === 0 ? 0 : koffi.errno();
    },
    isByteLocked(fd, offset) {
      const one = byteLock(F_WRLCK, offset);
      return fcntl(fd, F_OFD_GETLK, one) !== 0 || one.readInt16LE(0) !== F_UNLCK;
    },
  };
}

function byteLock(type: number, offset: bigint): Buffer {
  const one = Buffer.alloc(FLOCK_BYTES);
  one.writeInt16LE(type, 0);
  one.writeBigInt64LE(offset, 8);
  one.writeBigInt64LE(1n, 16);
  return one;
}

/**
 * A CommonJS bundle has `__filename` and an empty `import.meta`. A thread started from source text
 * has both, but its `__filename` is not a path.
 */
const HERE = import.meta.url ?? __filename;

/**
 * The part of koffi that is for this system: all of koffi that is used here. The package koffi
 * would bring it, but also an install script, for which pnpm fails unless it is told otherwise.
 */
const KOFFI = `@koromix/koffi-${process.platform}-${process.arch}`;

/** Raises SW_PERMISSION_DENIED and SW_UNSUPPORTED, which name the pools that need koffi. */
export function loadKoffi(pools = 'shm: and file: pools'): Foreign {
  try {
    return requireKoffi();
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    // Node's own --permission forbids addons unless it is told otherwise.
    if (code === 'ERR_DLOPEN_DISABLED' || code === 'ERR_ACCESS_DENIED') {
      const remedy = 'add --allow-addons, and --allow-fs-read of its files, or use memory:';
      const why = `Node may not load the addon koffi, which ${pools} need: ${remedy}`;
      throw new StepwellError('SW_PERMISSION_DENIED', why, { cause });
    }
    throw new StepwellError(
      'SW_UNSUPPORTED',
      `${pools} need the addon koffi: run npm install ${KOFFI} beside ` +
        `${HERE}, which a bundle cannot contain (${message.split('\n', 1)[0]})`,
      { cause },
    );
  }
}

/**
 * A bundler leaves these `require`s alone, because it cannot bundle an addon. A bundle finds it
 * where the bundle stands, where the program does, or beside the package as it was installed.
 */
function requireKoffi(): Foreign {
  const errors: unknown[] = [];
  for (const from of [HERE, process.argv[1], 'stepwell']) {
    try {
      const path =
        from === 'stepwell' ? createRequire(HERE).resolve('stepwell/package.json') : from;
      if (path !== undefined) return createRequire(path)(KOFFI);
    } catch (error) {
      errors.push(error);
    }
  }
  throw errors[0];
}

/** Raises SW_UNSUPPORTED where pools cannot be mapped. */
export function loadLibc(): Libc {
  const { platform } = process;
  if (platform !== 'linux' && platform !== 'darwin') {
    const why = 'file: pools need Linux or, experimentally, macOS';
    throw new StepwellError('SW_UNSUPPORTED', `${why}; use memory:, or tcp:// and a memory node`);
  }
  // First: where the processor is the reason, the remedy is not another package.
  barrierOf();
  const koffi = loadKoffi();
  const libc = koffi.load(null);
  return platform === 'darwin' ? macosCalls(libc, koffi) : linuxCalls(libc, koffi);
}

function linuxCalls(libc: Foreign, koffi: Foreign): Libc {
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
    isSparse: true,
    // Allocating the last page moves the end of the file forward only; ftruncate could undo a
    // longer file that another client has just made.
    lengthen: (fd, bytes) => allocateRange(fd, bytes - PAGE_BYTES, PAGE_BYTES),
    allocate: (fd, bytes) => allocateRange(fd, 0, bytes),
    lock: (fd) => flock(fd, LOCK_EXCLUSIVE_AT_ONCE) === 0 || koffi.errno() !== EAGAIN,
    byteLocks: byteLocks(libc, koffi),
    populate({ address }, offset, bytes) {
      const start = address + BigInt(offset);
      const errno = errorOf(() => madvise(start, bytes, MADV_POPULATE_WRITE));
      // Kernels before 5.14 do not know this advice: they allocate pages at the first touch.
      return errno === EINVAL ? 0 : errno;
    },
  };
}

const UNLOCK = 8;
const PIECE_BYTES = 2 ** 20;
/** A client holds the lock while it writes a region; a client stopped meanwhile keeps it. */
const LENGTHEN_ATTEMPTS_MAX = 3000;
const PAUSE_MS = 10;

/**
 * Pools in files on macOS, with only `mmap` and `flock`. No call there reserves a page of a sparse
 * file, so a region is written with zeros when it is added. There are no open-file byte locks: a
 * client counts as alive while its process exists.
 */
function macosCalls(libc: Foreign, koffi: Foreign): Libc {
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
    const errno = -((error as NodeJS.ErrnoException).errno ?? 0);
    if (isFull(errno)) return errno;
    throw error;
  }
}
