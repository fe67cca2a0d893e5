import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import { type ErrorCode, StepwellError } from '../errors.ts';
import { errnoOf, fileSystemRefused, isFull } from '../fabrics/shared/refused-memory.ts';

/**
 * The kind of system call that failed: opening an existing file, creating or removing one (which
 * writes to its directory), or listing a directory.
 */
export type IoPurpose = 'open' | 'create' | 'remove' | 'list';

type Text = (what: string, path: string, purpose: IoPurpose) => string;
type Explained = readonly [code: ErrorCode, text: Text];

const DENIED: Explained = [
  'SW_PERMISSION_DENIED',
  (what, path, purpose) => {
    if (purpose === 'open') {
      const whose = 'a pool belongs to the user that made it (mode 600)';
      const remedy = 'run as that user, or change its owner or mode';
      return `the system does not let this process at ${what}: ${whose}; ${remedy}`;
    }
    if (purpose === 'list') return `the system does not let this process list ${what}`;
    const [denied, remedy] =
      purpose === 'create'
        ? ['make files in', 'change its owner or mode, or put the pool elsewhere']
        : ['remove this file from', 'run as the owner of the file or of the directory'];
    return `the system does not let this process ${denied} ${dirname(path)} for ${what}; ${remedy}`;
  },
];

const NODE_DENIED: Explained = [
  'SW_PERMISSION_DENIED',
  (what, path, purpose) => {
    const rights =
      purpose === 'list'
        ? `--allow-fs-read=${path}`
        : `--allow-addons, --allow-fs-read=* and --allow-fs-write=${dirname(path)}`;
    return `Node's permission model (--permission) keeps this process from ${what}; add ${rights}`;
  },
];

const NO_FILE: Explained = ['SW_POOL_FOREIGN', (what) => `${what} is no ordinary file`];
const TOO_MANY_FILES: Explained = [
  'SW_TOO_MANY_FILES',
  (what) => `too many open files to open ${what}; close some, or raise the limit (ulimit -n)`,
];
/** Windows says EPERM for a file that is mapped, and for one that it keeps from this user. */
const MAPPED: Explained = [
  'SW_POOL_BUSY',
  (what) => `Windows removes no file that a process has mapped: close all stores of ${what} first`,
];
const NO_LINKS: Explained = [
  'SW_UNSUPPORTED',
  (what) => `the file system of ${what} has no hard links, which making a pool needs; use another`,
];

/** Explanations by the system's error code. */
const EXPLAINED: Readonly<Record<string, Explained>> = {
  EACCES: DENIED,
  EPERM: DENIED,
  EROFS: [
    'SW_PERMISSION_DENIED',
    (what) => `the file system of ${what} is read-only; put the pool on one that can be written`,
  ],
  ERR_ACCESS_DENIED: NODE_DENIED,
  EISDIR: ['SW_POOL_FOREIGN', (what) => `${what} is a directory; name a file in it`],
  ESPIPE: NO_FILE,
  ENXIO: NO_FILE,
  ENODEV: NO_FILE,
  ENOTDIR: [
    'SW_INVALID_URL',
    (what) => `a part of the path of ${what} is a file and no directory; correct the path`,
  ],
  ENAMETOOLONG: [
    'SW_INVALID_URL',
    (what) => `the path of ${shortened(what)} is too long for the system; use a shorter one`,
  ],
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

/** Runs an action, and turns the system's error, if any, into a StepwellError. */
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

/** Turns the system's error into one for the caller; returns other errors unchanged. */
export function asStepwellError(
  what: string,
  path: string,
  error: unknown,
  purpose: IoPurpose,
): unknown {
  const { code, errno, syscall } = error as NodeJS.ErrnoException;
  if (error instanceof StepwellError || code === undefined) return error;
  const raise = ([name, text]: Explained, suffix = ` (${code})`) =>
    new StepwellError(name, `${text(what, path, purpose)}${suffix}`, { cause: error });
  if (code === 'ENOENT') return raise(notFound(path, purpose), '');
  if (syscall === 'link' && ['EPERM', 'EMLINK', 'ENOSYS', 'EOPNOTSUPP'].includes(code)) {
    return raise(NO_LINKS);
  }
  if (purpose === 'remove' && process.platform === 'win32' && code === 'EPERM') {
    return raise(MAPPED);
  }
  const number = errnoOf(error as NodeJS.ErrnoException);
  if (isFull(number)) return fileSystemRefused(what, number);
  if (Object.hasOwn(EXPLAINED, code)) return raise(EXPLAINED[code]);
  if (errno === undefined) return error;
  return raise(['SW_SYSTEM_ERROR', () => `the system failed on ${what}: ${syscall}`]);
}

function notFound(path: string, purpose: IoPurpose): Explained {
  if (purpose !== 'create') return ['SW_POOL_NOT_FOUND', (what) => `no pool at ${what}`];
  const directory = dirname(path);
  // A file system of the kernel, such as /proc, says ENOENT of any file that is to be made.
  if (isThere(directory)) {
    return ['SW_UNSUPPORTED', (what) => `no file can be made at ${what}; put the pool elsewhere`];
  }
  return [
    'SW_DIRECTORY_NOT_FOUND',
    (what) => `the directory ${directory} of ${what} does not exist; make it first`,
  ];
}

function isThere(directory: string): boolean {
  try {
    return statSync(directory).isDirectory();
  } catch {
    return false;
  }
}

function shortened(text: string): string {
  return text.length <= 100 ? text : `${text.slice(0, 100)}… (${text.length} characters)`;
}
