import { execFileSync } from 'node:child_process';
import { loadKoffi } from '../../fabrics/shared/libc.ts';

/** State of a thread or a process that is there, as the system reports it. */
export interface Stat {
  /** As `ps` writes it; Z and X mean that it executes nothing any more. */
  state: string;
  /** Distinguishes two with the same id; see ThreadIdentity. */
  startTime: number;
}

/** Undefined if there is none; `unreadable` if the system does not tell. */
export type StatOf = (pid: number) => Stat | 'unreadable' | undefined;

const TIMEOUT_MS = 5000;
/** How long an answer is reused: `ps` takes some milliseconds. */
const FRESH_MS = 1000;

/** Whether a process or thread has the id, even one that this process may not signal. */
export function exists(id: number): boolean {
  try {
    process.kill(id, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

/** Looks a process up outside Linux. */
export function readProcess(pid: number): Stat | 'unreadable' | undefined {
  if (!exists(pid)) return undefined;
  try {
    return askSystem(pid);
  } catch {
    // It may have ended meanwhile.
    return exists(pid) ? 'unreadable' : undefined;
  }
}

/** Raises what `execFileSync` raises, and SW_UNSUPPORTED on Windows without koffi. */
export function askSystem(pid: number): Stat | 'unreadable' {
  return process.platform === 'win32' ? askWindows(pid) : askPs(pid);
}

/** Runs `ps`, as POSIX allows; start times are in whole seconds. */
function askPs(pid: number): Stat | 'unreadable' {
  const env = { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' };
  const words = ['-o', 'stat=', '-o', 'lstart=', '-p', String(pid)];
  const stdio: ('ignore' | 'pipe')[] = ['ignore', 'pipe', 'ignore'];
  const text = execFileSync('ps', words, { env, encoding: 'utf8', timeout: TIMEOUT_MS, stdio });
  const [, state, started] = /^\s*(\S+)\s+(.*\S)\s*$/.exec(text) ?? [];
  const startTime = Date.parse(`${started} UTC`) / 1000;
  return Number.isSafeInteger(startTime) ? { state: state[0], startTime } : 'unreadable';
}

const PROCESS_QUERY_LIMITED_INFORMATION = 0x1000;
const SYNCHRONIZE = 0x100000;
const WAIT_OBJECT_0 = 0;
/** A FILETIME counts 100 ns from 1601; this many microseconds of it are before 1970. */
const EPOCH_MICROSECONDS = 11_644_473_600_000_000n;

/**
 * Start times are in microseconds. A handle keeps the process's number from being given to another
 * (Process Handles and Identifiers), so state and start time are those of one process. The object
 * of a process that has ended is signaled (Terminating a Process), and may outlive it.
 */
function askWindows(pid: number): Stat | 'unreadable' {
  const kernel = loadKoffi().load('kernel32.dll');
  const open = kernel.func('void *OpenProcess(uint32_t, int, uint32_t)');
  const times = kernel.func('int GetProcessTimes(void *, void *, void *, void *, void *)');
  const wait = kernel.func('uint32_t WaitForSingleObject(void *, uint32_t)');
  const close = kernel.func('int CloseHandle(void *)');
  const handle = open(PROCESS_QUERY_LIMITED_INFORMATION | SYNCHRONIZE, 0, pid);
  if (handle === null) return 'unreadable';
  try {
    const [started, ended, inKernel, inUser] = [0, 1, 2, 3].map(() => Buffer.alloc(8));
    if (times(handle, started, ended, inKernel, inUser) === 0) return 'unreadable';
    const microseconds = started.readBigUInt64LE(0) / 10n - EPOCH_MICROSECONDS;
    const state = wait(handle, 0) === WAIT_OBJECT_0 ? 'X' : 'R';
    return { state, startTime: Number(microseconds) };
  } finally {
    close(handle);
  }
}

/** `readProcess` with a cache; still notices at once that a process has ended. */
export function rememberingProcesses(): StatOf {
  const known = new Map<number, { stat: Stat | 'unreadable'; at: number }>();
  return (pid) => {
    const one = known.get(pid);
    const now = performance.now();
    if (one !== undefined && now - one.at < FRESH_MS && exists(pid)) return one.stat;
    const stat = readProcess(pid);
    if (stat === undefined) known.delete(pid);
    else known.set(pid, { stat, at: now });
    return stat;
  };
}
