import { linkSync } from 'node:fs';
import { constants, type } from 'node:os';
import { StepwellError } from '../../errors.ts';
import { ClosedRanges, type Mapping } from './closed-ranges.ts';
import type { ByteLocks } from './file-locks.ts';
import { erase, type Foreign, type ThreadRanges } from './thread-ranges.ts';

const PROT_READ_WRITE = 3;
const MAP_SHARED = 0x01;
const MAP_PRIVATE = 0x02;
const MAP_FIXED = 0x10;
/** Flags follow the running system, even if a test asks for the other system's calls. */
const IS_DARWIN = type() === 'Darwin';
const MAP_ANONYMOUS = IS_DARWIN ? 0x1000 : 0x20;
const MAP_NORESERVE = IS_DARWIN ? 0x40 : 0x4000;
const MAP_FAILED = 2n ** 64n - 1n;
const { EPERM, ENOMEM, EACCES, EAGAIN } = constants.errno;

/** The few system calls that Node does not offer, through koffi. */
export interface Libc {
  mapShared(fd: number, offset: number, bytes: number): Mapping;
  /**
   * Releases the file's pages at once. The addresses stay valid while views of them may live: a
   * stale typed array reads zeros from private memory instead of crashing the process. Later calls
   * of `mapShared` unmap or reuse the addresses.
   */
  release(mapping: Mapping): void;
  /**
   * Whether a file takes memory only as parts of it are populated. Otherwise each part is written
   * with zeros when it is added, so that the file has no holes.
   */
  readonly isSparse: boolean;
  /**
   * Lengthens a file to at least `bytes`; never shortens it, even if others lengthen it too.
   * Returns 0 or the system's error number.
   */
  lengthen(fd: number, bytes: number): number;
  /** Allocates all of a file in the file system now; returns 0 or an error number. */
  allocate(fd: number, bytes: number): number;
  /**
   * Locks the file against others that lock it, until the descriptor is closed or the process ends;
   * false if another open file holds the lock. True without a lock if the file system has none.
   */
  lock(fd: number): boolean;
  readonly byteLocks: ByteLocks;
  /**
   * Populates pages of a mapping now, so that a lack of memory is an error here, not a bus error
   * at the first touch; returns 0 or an error number. Honours the mapping's huge-page advice,
   * which fallocate does not.
   */
  populate(mapping: Mapping, offset: number, bytes: number): number;
  /** Gives a complete file its name; false if the name is taken, also if it was just now. */
  publish(draft: string, path: string): boolean;
}

/** The calls that POSIX defines alike everywhere. */
export function mappingCalls(
  libc: Foreign,
  koffi: Foreign,
  ranges?: ThreadRanges,
): Pick<Libc, 'mapShared' | 'release' | 'publish'> {
  const mmap = libc.func('void *mmap(void *, size_t, int, int, int, int64_t)');
  const munmap = libc.func('int munmap(void *, size_t)');
  const closed = ClosedRanges.ofThread();
  const unmapUnused = (): void => {
    for (const { address, bytes, note } of closed.takeUnreachable()) {
      if (note) erase(note);
      munmap(address, bytes);
    }
    for (const { address, bytes } of ranges?.takeAbandoned() ?? []) munmap(address, bytes);
  };
  return {
    mapShared(fd, offset, bytes) {
      unmapUnused();
      const map = (address: bigint | null, flags: number): bigint => {
        const at = mmap(address, bytes, PROT_READ_WRITE, MAP_SHARED | flags, fd, offset);
        return BigInt(koffi.address(at));
      };
      let address = map(null, 0);
      const errno = isFailed(address) ? koffi.errno() : 0;
      // A program that opens and closes pools in one event-loop turn gives the GC no chance.
      const seized = errno === ENOMEM ? closed.seize(bytes) : undefined;
      if (seized) address = map(seized.address, MAP_FIXED);
      if (isFailed(address)) throw mapFailed(errno);
      const note = seized ? seized.note : ranges?.note(address, bytes);
      return { memory: koffi.view(address, bytes), address, bytes, note };
    },
    release(mapping) {
      const flags = MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
      mmap(mapping.address, mapping.bytes, PROT_READ_WRITE, flags, -1, 0);
      closed.add(mapping);
    },
    publish: link,
  };
}

function link(draft: string, path: string): boolean {
  try {
    linkSync(draft, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

function isFailed(address: bigint): boolean {
  return address === MAP_FAILED || address === -1n;
}

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
