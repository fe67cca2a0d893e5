import { closeSync, fstatSync } from 'node:fs';
import { constants } from 'node:os';
import { StepwellError } from '../../errors.ts';

/** Far behind the data of any file, where no other program locks anything. */
const FIRST_BYTE = 2n ** 62n;
const { EAGAIN, EACCES } = constants.errno;

/** The system calls below. */
export interface ByteLocks {
  /**
   * Takes or lets go of the lock on one byte for the descriptor's open file description, at once;
   * returns 0 or an error's number.
   */
  lockByte(fd: number, offset: bigint, taken: boolean): number;
  /** Whether another open file description has the byte locked; true when the system fails. */
  isByteLocked(fd: number, offset: bigint): boolean;
}

/** What became of an attempt to take a lock. */
export const LOCK_TAKEN = 1;
/** By another one: another open file description has it. */
export const LOCK_HELD = 2;
/** The file system knows no such locks, or has no room for more. */
export const LOCK_REFUSED = 3;
/** Nobody would look at it. */
export const LOCK_NEEDLESS = 4;

/**
 * Numbered locks of a pool file. Lock n is that of the byte 2^62 + n, and belongs to an open file
 * description (F_OFD_SETLK). The kernel lets go of it when the last descriptor of that description
 * is closed: at the latest when the process ends, in whatever namespace, by whatever signal. A
 * process that is stopped keeps its locks.
 *
 * The description is one of its own, because a mapping keeps its description open. A thread that is
 * terminated leaves its mappings behind, while Node closes the files that the thread had opened.
 * Descriptors are closed on exec; a child that is forked and runs no other program keeps the locks.
 */
export class FileLocks {
  readonly #libc: ByteLocks;
  readonly #fd: number;
  readonly #reopen: () => number;
  #own: number | undefined;

  /** `fd` is any descriptor of the file, `reopen` opens the file once more. */
  constructor(libc: ByteLocks, fd: number, reopen: () => number) {
    this.#libc = libc;
    this.#fd = fd;
    this.#reopen = reopen;
  }

  take(lock: number): number {
    this.#own ??= this.#open();
    const errno = this.#libc.lockByte(this.#own, byteOf(lock), true);
    if (errno === 0) return LOCK_TAKEN;
    return errno === EAGAIN || errno === EACCES ? LOCK_HELD : LOCK_REFUSED;
  }

  release(lock: number): void {
    if (this.#own !== undefined) this.#libc.lockByte(this.#own, byteOf(lock), false);
  }

  /** Whether it is taken, also by this object; true where the system does not tell. */
  isTaken(lock: number): boolean {
    return this.#libc.isByteLocked(this.#fd, byteOf(lock));
  }

  /** Lets go of all locks. */
  close(): void {
    if (this.#own !== undefined) closeSync(this.#own);
    this.#own = undefined;
  }

  /** A file may have taken the place of the one that is mapped. */
  #open(): number {
    const own = this.#reopen();
    const [one, other] = [own, this.#fd].map((fd) => fstatSync(fd, { bigint: true }));
    if (one.dev === other.dev && one.ino === other.ino) return own;
    closeSync(own);
    const why = 'another file took its place while it was opened';
    throw new StepwellError('SW_POOL_NOT_FOUND', `the pool is gone: ${why}; open it again`);
  }
}

function byteOf(lock: number): bigint {
  return FIRST_BYTE + BigInt(lock);
}
