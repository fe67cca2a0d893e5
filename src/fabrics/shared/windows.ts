import { existsSync } from 'node:fs';
import { constants } from 'node:os';
import { StepwellError } from '../../errors.ts';
import { detach } from './closed-ranges.ts';
import type { ByteLocks } from './file-locks.ts';
import type { Libc } from './mapping.ts';
import type { Foreign } from './thread-ranges.ts';
import { FILE_LOCK, writtenFiles } from './written-files.ts';

const PAGE_READWRITE = 4;
const FILE_MAP_READ_WRITE = 4 | 2;
const LOCKFILE_FAIL_IMMEDIATELY = 1;
const LOCKFILE_EXCLUSIVE_LOCK = 2;
/** Bytes of OVERLAPPED: 64 | 64 | offset 64 | event 64. */
const OVERLAPPED_BYTES = 32;
const OVERLAPPED_OFFSET = 16;
const ERROR_INVALID_FUNCTION = 1;
const ERROR_ACCESS_DENIED = 5;
const ERROR_NOT_ENOUGH_MEMORY = 8;
const ERROR_NOT_SUPPORTED = 50;
const ERROR_COMMITMENT_LIMIT = 1455;

/**
 * Pools in files on Windows. What the protocols depend on, and where Microsoft documents it:
 *
 * - **Views of one local file are coherent**, also between processes (CreateFileMapping, Remarks).
 *   A network drive gives no such guarantee. Reads and writes of the file itself "are not
 *   necessarily coherent" with views (MapViewOfFile, Remarks). Only three things are
 *   accessed in both ways, and they hardly change: the superblock, the mark of a destroyed pool,
 *   and the zeros that a region starts with.
 * - **A mapped file never shrinks**: its end cannot move back (SetEndOfFile, Remarks). Nor can it
 *   be removed (DeleteFile, Remarks). So a pool that a client has open is not removed, not even by
 *   force.
 * - **Node opens files for sharing** with readers, writers and removers (`fs__open` of libuv).
 *
 * No region is sparse: a page without room on the disk would be an exception at the first touch.
 */
export function windowsCalls(koffi: Foreign): Libc {
  const kernel = koffi.load('kernel32.dll');
  const handleOf = handlesOfDescriptors(koffi);
  const lastError = kernel.func('uint32_t GetLastError()');
  const move = kernel.func('int MoveFileW(str16, str16)');
  const byteLocks = handleLocks(kernel, handleOf, lastError);
  const lock = (fd: number) => byteLocks.lockByte(fd, FILE_LOCK, true) === 0;
  return {
    ...viewCalls(koffi, kernel, handleOf, lastError),
    ...writtenFiles(lock, (fd) => byteLocks.lockByte(fd, FILE_LOCK, false)),
    byteLocks,
    // A second name, which `link` would give it, could not be removed once a client maps the file.
    publish(draft, path) {
      // "The new name must not already exist" (MoveFile).
      if (move(draft, path) !== 0) return true;
      const error = lastError();
      if (existsSync(path)) return false;
      throw new StepwellError(
        'SW_SYSTEM_ERROR',
        `the system failed on ${path}: MoveFile (error ${error}); close what reads its folder`,
      );
    },
  };
}

/**
 * Only libuv knows which handle is behind one of Node's descriptors: node.exe exports its function,
 * and so does Bun. Raises SW_UNSUPPORTED in Deno, which exports a part of libuv without it.
 */
function handlesOfDescriptors(koffi: Foreign): Foreign {
  try {
    return koffi.load(null).func('intptr_t uv_get_osfhandle(int)');
  } catch (cause) {
    throw new StepwellError(
      'SW_UNSUPPORTED',
      'on Windows, shm: and file: pools need a function of libuv that this runtime does not ' +
        'export: run the program with Node or Bun, or use memory: or tcp://',
      { cause },
    );
  }
}

function viewCalls(
  koffi: Foreign,
  kernel: Foreign,
  handleOf: Foreign,
  lastError: () => number,
): Pick<Libc, 'mapShared' | 'release'> {
  const createMapping = kernel.func(
    'void *CreateFileMappingW(intptr_t, void *, uint32_t, uint32_t, uint32_t, void *)',
  );
  const mapView = kernel.func('void *MapViewOfFile(void *, uint32_t, uint32_t, uint32_t, size_t)');
  const unmapView = kernel.func('int UnmapViewOfFile(void *)');
  const closeHandle = kernel.func('int CloseHandle(void *)');
  return {
    mapShared(fd, offset, bytes) {
      const mapping = createMapping(handleOf(fd), null, PAGE_READWRITE, 0, 0, null);
      if (mapping === null) throw mapFailed('CreateFileMapping', lastError());
      const [high, low] = [Math.floor(offset / 2 ** 32), offset % 2 ** 32];
      const view = mapView(mapping, FILE_MAP_READ_WRITE, high, low, bytes);
      const error = view === null ? lastError() : 0;
      // The view keeps the mapping (CloseHandle may come first: UnmapViewOfFile, Remarks).
      closeHandle(mapping);
      if (view === null) throw mapFailed('MapViewOfFile', error);
      const address = BigInt(koffi.address(view));
      return { memory: koffi.view(address, bytes), address, bytes, note: undefined };
    },
    // No call replaces a view by pages that take no memory. So typed arrays of it lose it first.
    release({ memory, address }) {
      detach(memory);
      unmapView(address);
    },
  };
}

/**
 * Locks of bytes by LockFileEx. They decide who is dead:
 *
 * - **A lock belongs to one handle.** "If the locking process opens the file a second time, it
 *   cannot access the specified region through this second handle" (LockFileEx, Remarks). So a
 *   client that asks through another handle finds the locks of all threads, also of its own
 *   process. A child process that inherits the handle has no part in the lock.
 * - **The lock of a dead client is released.** "If a process terminates with a portion of a file
 *   locked or closes a file that has outstanding locks, the locks are unlocked by the operating
 *   system" (same page). That may take a moment, in which the client counts as alive. When a thread
 *   is terminated, Node closes the files that it had opened.
 * - **A living client is not seen as dead.** Its lock is exclusive, and the question is an attempt
 *   to share it for an instant: "shared locks can overlap a locked region provided locks held on
 *   that region are shared locks". If the attempt fails, for whatever reason, the byte counts as
 *   locked. Clients that ask at the same time share the byte, and do not find each other. One that
 *   takes the lock in that instant fails as if another had it, and tries another row or again.
 *
 * A lock beyond the end of the file is not an error (same page), and views ignore locks.
 */
function handleLocks(kernel: Foreign, handleOf: Foreign, lastError: () => number): ByteLocks {
  const lockFile = kernel.func(
    'int LockFileEx(intptr_t, uint32_t, uint32_t, uint32_t, uint32_t, void *)',
  );
  const unlockFile = kernel.func(
    'int UnlockFileEx(intptr_t, uint32_t, uint32_t, uint32_t, void *)',
  );
  const lock = (fd: number, flags: number, offset: bigint): boolean =>
    lockFile(handleOf(fd), LOCKFILE_FAIL_IMMEDIATELY | flags, 0, 1, 0, overlapped(offset)) !== 0;
  const unlock = (fd: number, offset: bigint): void => {
    unlockFile(handleOf(fd), 0, 1, 0, overlapped(offset));
  };
  return {
    lockByte(fd, offset, taken) {
      if (!taken) unlock(fd, offset);
      else if (!lock(fd, LOCKFILE_EXCLUSIVE_LOCK, offset)) return refusalOf(lastError());
      return 0;
    },
    isByteLocked(fd, offset) {
      if (!lock(fd, 0, offset)) return true;
      unlock(fd, offset);
      return false;
    },
  };
}

function overlapped(offset: bigint): Buffer {
  const one = Buffer.alloc(OVERLAPPED_BYTES);
  one.writeBigUInt64LE(offset, OVERLAPPED_OFFSET);
  return one;
}

/** Other errors say nothing about who has the lock: another one may. */
function refusalOf(error: number): number {
  const isUnknown = error === ERROR_INVALID_FUNCTION || error === ERROR_NOT_SUPPORTED;
  return isUnknown ? constants.errno.ENOTSUP : constants.errno.EAGAIN;
}

function mapFailed(call: string, error: number): StepwellError {
  if (error === ERROR_NOT_ENOUGH_MEMORY || error === ERROR_COMMITMENT_LIMIT) {
    const why = 'the system has no addresses or memory left';
    return new StepwellError(
      'SW_OUT_OF_MEMORY',
      `${why} (${call}: error ${error}): open fewer pools`,
    );
  }
  if (error === ERROR_ACCESS_DENIED) {
    const why = 'the system lets this process not map the pool file for writing';
    return new StepwellError('SW_PERMISSION_DENIED', `${why} (${call}: error ${error})`);
  }
  const why = 'the file system of the pool cannot map files into memory; use a local drive';
  return new StepwellError('SW_UNSUPPORTED', `${why} (${call}: error ${error})`);
}
