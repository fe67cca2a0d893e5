import { dirname } from 'node:path';
import { type ErrorCode, StepwellError } from '../errors.ts';
import { fileSystemRefused, isFull } from '../fabrics/shared/refused-memory.ts';

/** What the system was asked for: of a pool that is to be there, or of one that is being made. */
export type IoPurpose = 'open' | 'create';

type Explained = readonly [code: ErrorCode, text: (what: string, path: string) => string];

const DENIED: Explained = [
  'SW_PERMISSION_DENIED',
  (what) =>
    `the system does not let this process at ${what}: a pool belongs to the user that made it ` +
    '(mode 600); run as that user, or change its owner or mode',
];

const NO_FILE: Explained = ['SW_POOL_FOREIGN', (what) => `${what} is no ordinary file`];
const TOO_MANY_FILES: Explained = [
  'SW_TOO_MANY_FILES',
  (what) => `too many open files to open ${what}; close some, or raise the limit (ulimit -n)`,
];
const NO_LINKS: Explained = [
  'SW_UNSUPPORTED',
  (what) => `the file system of ${what} has no hard links, which making a pool needs; use another`,
];

/** By the code of the system's error. Functions alone make texts; nothing here ever changes. */
const EXPLAINED: Readonly<Record<string, Explained>> = {
  EACCES: DENIED,
  EPERM: DENIED,
  EROFS: [
    'SW_PERMISSION_DENIED',
    (what) => `the file system of ${what} is read-only; put the pool on one that can be written`,
  ],
  ERR_ACCESS_DENIED: [
    'SW_PERMISSION_DENIED',
    (what, path) =>
      `Node's --permission keeps this process from ${what}; start it with --allow-addons, ` +
      `--allow-fs-read=* and --allow-fs-write=${dirname(path)}`,
  ],
  EISDIR: ['SW_POOL_FOREIGN', (what) => `${what} is a directory; name a file in it`],
  ESPIPE: NO_FILE,
  ENXIO: NO_FILE,
  ENODEV: NO_FILE,
  ENOTDIR: [
    'SW_INVALID_URL',
    (what) => `a part of the path of ${what} is a file and no directory; correct the path`,
  ],
  ENAMETOOLONG: ['SW_INVALID_URL', (what) => `the path of ${what} is too long; use a shorter one`],
  ELOOP: [
    'SW_INVALID_URL',
    (what) => `symbolic links in the path of ${what} lead round in circles`,
  ],
  EINVAL: ['SW_INVALID_URL', (what) => `the system takes ${what} for no path`],
  EFBIG: [
    'SW_POOL_FULL',
    (what) => `${what} is larger than its file system or this process may make a file (ulimit -f)`,
  ],
  EMFILE: TOO_MANY_FILES,
  ENFILE: TOO_MANY_FILES,
  ENOMEM: [
    'SW_OUT_OF_MEMORY',
    (what) => `the system has no memory for ${what}; open fewer pools, or allow more (ulimit -v)`,
  ],
  EBUSY: ['SW_POOL_BUSY', (what) => `the system keeps ${what} for itself`],
  ETXTBSY: ['SW_POOL_BUSY', (what) => `${what} is being run as a program`],
};

/** Runs what may fail in the system, and raises a StepwellError for that. */
export function guardIo<T>(
  what: string,
  path: string,
  action: () => T,
  purpose: IoPurpose = 'open',
): T {
  try {
    return action();
  } catch (error) {
    throw asStepwellError(what, path, error, purpose);
  }
}

/** What a failure of the system means to the caller; other errors as they are. */
export function asStepwellError(
  what: string,
  path: string,
  error: unknown,
  purpose: IoPurpose,
): unknown {
  const { code, errno, syscall } = error as NodeJS.ErrnoException;
  if (error instanceof StepwellError || code === undefined) return error;
  const raise = ([name, text]: Explained) =>
    new StepwellError(name, `${text(what, path)} (${code})`, { cause: error });
  if (code === 'ENOENT') {
    if (purpose === 'open') return new StepwellError('SW_POOL_NOT_FOUND', `no pool at ${what}`);
    const missing = `the directory ${dirname(path)} of ${what} does not exist; make it first`;
    return new StepwellError('SW_DIRECTORY_NOT_FOUND', missing, { cause: error });
  }
  if (syscall === 'link' && ['EPERM', 'EMLINK', 'ENOSYS', 'EOPNOTSUPP'].includes(code)) {
    return raise(NO_LINKS);
  }
  // Node counts the system's error numbers below 0.
  if (isFull(-(errno ?? 0))) return fileSystemRefused(what, -(errno ?? 0));
  if (Object.hasOwn(EXPLAINED, code)) return raise(EXPLAINED[code]);
  if (errno === undefined) return error;
  return raise(['SW_SYSTEM_ERROR', () => `the system failed on ${what}: ${syscall}`]);
}
