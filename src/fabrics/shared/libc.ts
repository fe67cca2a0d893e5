import { createRequire } from 'node:module';
import { StepwellError } from '../../errors.ts';
import type { ByteLocks } from './file-locks.ts';
import { isFull } from './refused-memory.ts';

const PROT_READ_WRITE = 3;
const MAP_SHARED = 0x01;
const MAP_PRIVATE = 0x02;
const MAP_FIXED = 0x10;
const MAP_ANONYMOUS = 0x20;
const MAP_NORESERVE = 0x4000;
const MADV_HUGEPAGE = 14;
const MADV_POPULATE_WRITE = 23;
const MAP_FAILED = 2n ** 64n - 1n;
const EINTR = 4;
const EPERM = 1;
const ENOMEM = 12;
const EACCES = 13;
const EAGAIN = 11;
const EINVAL = 22;
/** A call that signals interrupt so often in a row is not going to succeed. */
const ATTEMPTS_MAX = 1000;
const PAGE_BYTES = 4096;
const LOCK_EXCLUSIVE_AT_ONCE = 2 | 4;
const F_OFD_GETLK = 36;
const F_OFD_SETLK = 37;
const F_WRLCK = 1;
const F_UNLCK = 2;
/** Bytes of `struct flock`: type 16 | whence 16 | 32 | start 64 | length 64 | process 32 | 32. */
const FLOCK_BYTES = 32;

export interface Mapping {
  readonly memory: ArrayBuffer;
  readonly address: bigint;
}

/** The few system calls that Node does not offer, through koffi (Linux). */
export interface Libc extends ByteLocks {
  mapShared(fd: number, offset: number, bytes: number): Mapping;
  /**
   * Gives the file's pages back while the addresses stay valid: a stale typed array then reads
   * zeros of private memory instead of crashing the process.
   */
  release(mapping: Mapping): void;
  /**
   * Lengthens a file to at least `bytes`; never shortens it, also when others lengthen it too.
   * Returns 0, or the number of the error with which the system refuses.
   */
  lengthen(fd: number, bytes: number): number;
  /** Takes all of a file from the file system now; returns 0 or an error's number. */
  allocate(fd: number, bytes: number): number;
  /**
   * Locks the file against others that lock it, until the descriptor is closed or the process ends;
   * false when another process has it locked. On a file system that knows no locks it does nothing.
   */
  lock(fd: number): boolean;
  /**
   * Makes pages of a mapping present for writing now, so that a refusal is no bus error at the
   * first touch; returns 0 or an error's number. Honours the mapping's huge-page advice, which
   * fallocate does not.
   */
  populate(mapping: Mapping, offset: number, bytes: number): number;
}

// biome-ignore lint/suspicious/noExplicitAny: koffi's function type is untyped by nature
export type Foreign = any;

function mapFailed(errno: number): StepwellError {
  if (errno === ENOMEM || errno === EAGAIN) {
    const remedy = 'open fewer pools, or allow more (ulimit -v, vm.max_map_count)';
    return new StepwellError('SW_OUT_OF_MEMORY', `the system has no addresses left: ${remedy}`);
  }
  if (errno === EACCES || errno === EPERM) {
    const why = 'the system lets this process not map the pool file for writing';
    return new StepwellError('SW_PERMISSION_DENIED', `${why} (errno ${errno})`);
  }
  const why = 'the file system of the pool cannot map files into memory; use another';
  return new StepwellError('SW_UNSUPPORTED', `${why} (mmap: errno ${errno})`);
}

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
 * In a bundle of CommonJS modules `import.meta` is empty, and there is a file name. In a thread
 * that was started from text there are both, and the name is none.
 */
const HERE = import.meta.url ?? __filename;

/**
 * A bundler leaves this `require` alone: a bundle needs koffi installed beside it. Raises
 * SW_PERMISSION_DENIED and SW_UNSUPPORTED, which name the pools that need it.
 */
export function loadKoffi(pools = 'shm: and file: pools'): Foreign {
  try {
    return createRequire(HERE)('koffi');
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
      `${pools} need the koffi package: run npm install koffi beside ` +
        `${HERE}, which a bundle cannot contain (${message.split('\n', 1)[0]})`,
      { cause },
    );
  }
}

export function loadLibc(): Libc {
  if (process.platform !== 'linux') {
    throw new StepwellError('SW_UNSUPPORTED', 'shm: and file: pools need Linux; use memory:');
  }
  const koffi = loadKoffi();
  const libc = koffi.load(null);
  const mmap = libc.func('void *mmap(void *, size_t, int, int, int, int64_t)');
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
      const pointer = mmap(null, bytes, PROT_READ_WRITE, MAP_SHARED, fd, offset);
      const address = BigInt(koffi.address(pointer));
      if (address === MAP_FAILED || address === -1n) {
        throw mapFailed(koffi.errno());
      }
      madvise(pointer, bytes, MADV_HUGEPAGE);
      return { memory: koffi.view(pointer, bytes), address };
    },
    release({ memory, address }) {
      const flags = MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
      mmap(address, memory.byteLength, PROT_READ_WRITE, flags, -1, 0);
    },
    // Allocating the last page moves the end of the file forward only; ftruncate could undo a
    // longer file that another client has just made.
    lengthen: (fd, bytes) => allocateRange(fd, bytes - PAGE_BYTES, PAGE_BYTES),
    allocate: (fd, bytes) => allocateRange(fd, 0, bytes),
    lock: (fd) => flock(fd, LOCK_EXCLUSIVE_AT_ONCE) === 0 || koffi.errno() !== EAGAIN,
    ...byteLocks(libc, koffi),
    populate({ address }, offset, bytes) {
      const start = address + BigInt(offset);
      const errno = errorOf(() => madvise(start, bytes, MADV_POPULATE_WRITE));
      // Kernels before 5.14 do not know the advice: pages then come at the first touch.
      return errno === EINVAL ? 0 : errno;
    },
  };
}
