import { StepwellError } from '../../../errors.ts';
import { type Foreign, loadKoffi } from '../../shared/libc.ts';

/** An address or a handle of the C library, which is exact as a number: it is below 2^53. */
export type Handle = number;
/** Result of a call that may continue in the background: 0, a negative status, or a request. */
export type Pending = number;

export const OK = 0;
export const IN_PROGRESS = 1;
/** The worker has work to do, so its descriptor cannot be armed. */
export const BUSY = -15;
/** Results from this to -1 are statuses. */
const LAST_STATUS = -100;

/** The version of the header and of the library that these bindings were written for. */
const API_MAJOR = 1;
const API_MINOR = 13;
const PACKAGE = 'Debian and Ubuntu: apt install libucx0; others: the package ucx';
const POOLS = 'ucx: pools';

/**
 * Settings that override the environment. Most can be set only by variables, and some only before
 * the library is loaded.
 */
const FORCED: Readonly<Record<string, string>> = {
  // Otherwise the library replaces the process's signal handlers.
  UCX_HANDLE_ERRORS: 'none',
  // Otherwise it patches mmap and malloc of the process. Memory registered here never moves.
  UCX_MEM_EVENTS: 'n',
  // A single way to execute a WRITE, so that WRITEs of all lengths keep their order.
  UCX_TCP_PUT_ENABLE: 'n',
  // So that the end of a process on the same machine is an error, too.
  UCX_POSIX_ERROR_HANDLING: 'y',
  UCX_SYSV_ERROR_HANDLING: 'y',
  // A separate registration and key for each session.
  UCX_IB_REG_METHODS: 'direct',
};

/** Settings that the user's environment may override. */
const DEFAULTS: Readonly<Record<string, string>> = {
  // Errors are raised as exceptions; the library would print them to standard output.
  UCX_LOG_LEVEL: 'fatal',
  UCX_VFS_ENABLE: 'n',
  // How many verbs of a client fit before the node's processor has to run.
  UCX_POSIX_FIFO_SIZE: '1024',
  UCX_SYSV_FIFO_SIZE: '1024',
  UCX_WARN_UNUSED_ENV_VARS: 'n',
};

const PROTOTYPES = {
  configRead: 'int ucp_config_read(uintptr_t, uintptr_t, uintptr_t)',
  configModify: 'int ucp_config_modify(uintptr_t, str, str)',
  configRelease: 'void ucp_config_release(uintptr_t)',
  getVersion: 'void ucp_get_version(uintptr_t, uintptr_t, uintptr_t)',
  initVersion: 'int ucp_init_version(uint, uint, uintptr_t, uintptr_t, uintptr_t)',
  cleanup: 'void ucp_cleanup(uintptr_t)',
  contextQuery: 'int ucp_context_query(uintptr_t, uintptr_t)',
  workerCreate: 'int ucp_worker_create(uintptr_t, uintptr_t, uintptr_t)',
  workerDestroy: 'void ucp_worker_destroy(uintptr_t)',
  workerGetAddress: 'int ucp_worker_get_address(uintptr_t, uintptr_t, uintptr_t)',
  workerReleaseAddress: 'void ucp_worker_release_address(uintptr_t, uintptr_t)',
  workerGetEfd: 'int ucp_worker_get_efd(uintptr_t, uintptr_t)',
  workerArm: 'int ucp_worker_arm(uintptr_t)',
  workerSignal: 'int ucp_worker_signal(uintptr_t)',
  workerProgress: 'uint ucp_worker_progress(uintptr_t)',
  epCreate: 'int ucp_ep_create(uintptr_t, uintptr_t, uintptr_t)',
  epClose: 'int64_t ucp_ep_close_nbx(uintptr_t, uintptr_t)',
  epFlush: 'int64_t ucp_ep_flush_nbx(uintptr_t, uintptr_t)',
  memMap: 'int ucp_mem_map(uintptr_t, uintptr_t, uintptr_t)',
  memUnmap: 'int ucp_mem_unmap(uintptr_t, uintptr_t)',
  rkeyPack: 'int ucp_rkey_pack(uintptr_t, uintptr_t, uintptr_t, uintptr_t)',
  rkeyBufferRelease: 'void ucp_rkey_buffer_release(uintptr_t)',
  rkeyUnpack: 'int ucp_ep_rkey_unpack(uintptr_t, uintptr_t, uintptr_t)',
  rkeyDestroy: 'void ucp_rkey_destroy(uintptr_t)',
  get: 'int ucp_get_nbi(uintptr_t, uintptr_t, size_t, uint64_t, uintptr_t)',
  put: 'int ucp_put_nbi(uintptr_t, uintptr_t, size_t, uint64_t, uintptr_t)',
  atomic:
    'int64_t ucp_atomic_op_nbx(uintptr_t, int, uintptr_t, size_t, uint64_t, uintptr_t, uintptr_t)',
  requestStatus: 'int ucp_request_check_status(uintptr_t)',
  requestFree: 'void ucp_request_free(uintptr_t)',
} as const;

/** The functions as the header declares them; addresses and handles are numbers. */
export type UcxCalls = Record<keyof typeof PROTOTYPES, (...args: (number | string)[]) => number>;

export interface UcxLibrary extends UcxCalls {
  /** Version of the loaded library, such as `1.13.1`. */
  readonly version: string;
  /** Whether this release is one that Stepwell was tested with. */
  readonly isTested: boolean;
  /** The address of a buffer, which must be outside the heap (see `Pinned`). */
  addressOf(bytes: ArrayBufferView): Handle;
  /** A copy of memory that the library has allocated. */
  copyFrom(address: Handle, bytes: number): Uint8Array;
  /** The library's description of a status. */
  statusText(status: number): string;
  /** C's `poll`; `descriptors` are pairs of a descriptor and its events. */
  poll(descriptors: Int32Array, count: number, timeoutMs: number): number;
  /** As `poll`, in another thread. */
  pollLater(descriptors: Int32Array, count: number, timeoutMs: number): Promise<void>;
  /** A C function that zeroes this many bytes before the address that it gets. */
  clearer(bytes: () => number): { readonly address: Handle; release(): void };
  /** Asks for huge pages. */
  adviseHuge(bytes: ArrayBufferView): void;
}

/** Whether a result is an error status, not a handle with its highest bit set. */
export function isFailure(result: number): boolean {
  return result < 0 && result >= LAST_STATUS;
}

/**
 * Loads UCX, which is no part of this package. Raises SW_UNSUPPORTED when it is not there, with
 * the name of the package that has it, and when it is not one that these bindings know.
 */
export function loadUcx(name = 'libucp.so.0'): UcxLibrary {
  if (process.platform !== 'linux')
    throw new StepwellError('SW_UNSUPPORTED', `${POOLS} need Linux`);
  const koffi = loadKoffi(POOLS);
  const libc = koffi.load(null);
  setEnvironment(libc);
  const ucp = open(koffi, name);
  const calls: Partial<UcxCalls> = {};
  for (const [call, prototype] of Object.entries(PROTOTYPES)) {
    calls[call as keyof UcxCalls] = symbol(ucp, prototype, name);
  }
  const version = versionOf(calls as UcxCalls, koffi);
  const statusString = open(koffi, 'libucs.so.0').func('str ucs_status_string(int)');
  return {
    ...(calls as UcxCalls),
    ...systemCalls(libc, koffi),
    version: version.join('.'),
    isTested: version[0] === API_MAJOR && version[1] === API_MINOR,
    addressOf: (bytes) => Number(koffi.address(bytes)),
    copyFrom: (address, bytes) => new Uint8Array(koffi.view(BigInt(address), bytes)).slice(),
    statusText: (status) => statusString(status),
  };
}

/**
 * The environment of the process as C sees it: `process.env` of a thread is a copy, and the library
 * reads some of it when it is loaded.
 */
function setEnvironment(libc: Foreign): void {
  const setenv = libc.func('int setenv(str, str, int)');
  for (const [name, value] of Object.entries(FORCED)) setenv(name, value, 1);
  for (const [name, value] of Object.entries(DEFAULTS)) setenv(name, value, 0);
}

function open(koffi: Foreign, name: string): Foreign {
  try {
    return koffi.load(name);
  } catch (cause) {
    const why = `${POOLS} need the library ${name} (${PACKAGE})`;
    throw new StepwellError('SW_UNSUPPORTED', `${why}: ${(cause as Error).message}`, { cause });
  }
}

function symbol(library: Foreign, prototype: string, name: string) {
  try {
    return library.func(prototype);
  } catch (cause) {
    const why = `${name} is not a version of UCX that has what Stepwell needs`;
    throw new StepwellError('SW_UNSUPPORTED', `${why}: ${prototype} (${PACKAGE})`, { cause });
  }
}

/** Raises SW_UNSUPPORTED for another major version, whose structures may be others. */
function versionOf(ucx: UcxCalls, koffi: Foreign): [number, number, number] {
  const words = new Uint32Array(new ArrayBuffer(16));
  const at = Number(koffi.address(words));
  ucx.getVersion(at, at + 4, at + 8);
  const [major, minor, release] = words;
  if (major === API_MAJOR && minor >= API_MINOR) return [major, minor, release];
  const found = `${major}.${minor}.${release}`;
  const why = `UCX ${found} is installed; ${POOLS} need 1.13 or a later 1.x`;
  throw new StepwellError('SW_UNSUPPORTED', `${why} (${PACKAGE})`);
}

const MADV_HUGEPAGE = 14;
const PAGE_BYTES = 4096;

function systemCalls(libc: Foreign, koffi: Foreign) {
  const poll = libc.func('int poll(uintptr_t, ulong, int)');
  const madvise = libc.func('int madvise(uintptr_t, size_t, int)');
  const memset = libc.func('void *memset(uintptr_t, int, size_t)');
  const at = (bytes: ArrayBufferView) => Number(koffi.address(bytes));
  return {
    poll: (descriptors: Int32Array, count: number, timeoutMs: number): number =>
      poll(at(descriptors), count, timeoutMs),
    pollLater: (descriptors: Int32Array, count: number, timeoutMs: number) =>
      new Promise<void>((resolve) => {
        // Callers ask the library, not `poll`. Reading the length keeps the buffer reachable.
        poll.async(at(descriptors), count, timeoutMs, () => resolve(void descriptors.length));
      }),
    clearer(bytes: () => number) {
      const clear = (end: number) => void memset(end - bytes(), 0, bytes());
      const type = koffi.pointer(koffi.proto('void', ['uintptr_t']));
      const registered = koffi.register(clear, type);
      const address = Number(koffi.address(registered));
      return { address, release: () => koffi.unregister(registered) };
    },
    adviseHuge(bytes: ArrayBufferView): void {
      const first = Math.ceil(at(bytes) / PAGE_BYTES) * PAGE_BYTES;
      const length = Math.floor((at(bytes) + bytes.byteLength - first) / PAGE_BYTES) * PAGE_BYTES;
      if (length > 0) madvise(first, length, MADV_HUGEPAGE);
    },
  };
}

/** Raises SW_UNSUPPORTED with the library's own words when a call has not succeeded. */
export function succeed(ucx: UcxLibrary, status: number, what: string): void {
  if (status === OK) return;
  const words = isFailure(status) ? ucx.statusText(status) : `status ${status}`;
  throw new StepwellError('SW_UNSUPPORTED', `UCX ${ucx.version} cannot ${what}: ${words}`);
}
