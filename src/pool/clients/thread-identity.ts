import { existsSync, readFileSync, readlinkSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';
import { StepwellError } from '../../errors.ts';
import {
  askSystem,
  exists,
  readProcess,
  rememberingProcesses,
  type Stat,
  type StatOf,
} from './process-stat.ts';

/** Bits for the namespace in a row's state word. */
export const NAMESPACE_BITS = 22;
const NAMESPACE_MASK = 2 ** NAMESPACE_BITS - 1;
/**
 * The namespace of network clients. Their thread id is the tag of their session, their start time
 * the session. Only memory nodes can tell whether such a client is connected.
 */
export const NETWORK_NAMESPACE = NAMESPACE_MASK;

/**
 * How the operating system knows a client. A client is a thread, not a process: a worker may be
 * terminated while its process lives on.
 */
export interface ThreadIdentity {
  pid: number;
  tid: number;
  /**
   * When the thread started, to detect a reused id. In clock ticks since boot on Linux; elsewhere,
   * when its process started since 1970, in seconds, on Windows in microseconds.
   */
  startTime: number;
  /** Differs after a reboot. LXC and systemd-nspawn show each container a boot id of its own. */
  boot: number;
  /** Ids and start times can be compared only within a namespace. */
  namespace: number;
}

export type Liveness = 'alive' | 'gone' | 'unknown';

/** A row's state word has 22 bits for it. */
const TID_END = 2 ** 22;
/** On some systems `ps` computes the start time from two clocks, so it varies. */
const START_SLACK_SECONDS = 2;

/**
 * Outside Linux only processes can be looked up. The main thread ends with its process, so in a
 * pool in a file its thread id is `pid`. Any other thread has id 0: nothing shows that it was
 * terminated while its process lives on. Raises SW_UNSUPPORTED if the operating system does not
 * tell (except for `memory:` outside Linux), SW_PERMISSION_DENIED if Node may not ask it.
 */
export function currentThread(isInFile = false): ThreadIdentity {
  if (process.platform !== 'linux') {
    const { pid } = process;
    const startTime = isInFile ? ownStart(pid) : 0;
    const hasTid = isInFile && isMainThread && pid < TID_END;
    return { pid, tid: hasTid ? pid : 0, startTime, boot: 0, namespace: 0 };
  }
  try {
    const [pid, , tid] = readlinkSync('/proc/thread-self').split('/').map(Number);
    const namespace = fingerprint(namespaceOf(pid));
    const stat = readStat(tid);
    if (stat === undefined || stat === 'unreadable') throw new Error('/proc shows no own thread');
    return {
      pid,
      tid,
      startTime: stat.startTime,
      boot: fingerprint(readFileSync('/proc/sys/kernel/random/boot_id', 'utf8')),
      namespace: (namespace & NAMESPACE_MASK) % NETWORK_NAMESPACE,
    };
  } catch (cause) {
    throw noProc(cause);
  }
}

function ownStart(pid: number): number {
  const why = 'a pool in a file needs the command ps to tell its clients apart';
  try {
    const stat = askSystem(pid);
    if (stat !== 'unreadable') return stat.startTime;
  } catch (cause) {
    if (cause instanceof StepwellError) throw cause;
    const isDenied = (cause as NodeJS.ErrnoException).code === 'ERR_ACCESS_DENIED';
    if (!isDenied) throw new StepwellError('SW_UNSUPPORTED', why, { cause });
    const remedy = "which Node's permission model (--permission) denies: add --allow-child-process";
    throw new StepwellError('SW_PERMISSION_DENIED', `${why}, ${remedy}`, { cause });
  }
  throw new StepwellError('SW_UNSUPPORTED', `${why}, with -o stat= -o lstart=`);
}

/**
 * A pid namespace without its own /proc shows the ids of another namespace. In this process's own
 * namespace, and for `kill`, these ids belong to other processes. Then only threads of this process
 * may be compared. Start times count from the boot time of the reader's time namespace, if any.
 */
function namespaceOf(pid: number): string {
  const ids = readlinkSync('/proc/self/ns/pid');
  const times = existsSync('/proc/self/ns/time') ? readlinkSync('/proc/self/ns/time') : '';
  const hasForeignIds = /^NSpid:\t\d+\t/m.test(readFileSync('/proc/thread-self/status', 'latin1'));
  return `${ids} ${times} ${hasForeignIds ? pid : ''}`;
}

function noProc(cause: unknown): StepwellError {
  const why = 'a pool needs /proc to tell its clients apart';
  const { code } = cause as NodeJS.ErrnoException;
  if (code === 'ERR_ACCESS_DENIED') {
    const remedy = "which Node's permission model (--permission) denies; add --allow-fs-read=/proc";
    return new StepwellError('SW_PERMISSION_DENIED', `${why}, ${remedy}`, { cause });
  }
  const { message } = cause as Error;
  return new StepwellError('SW_UNSUPPORTED', `${why}; mount it (${message})`, { cause });
}

/**
 * Asks the operating system whether the thread can still issue verbs. The thread is gone only if
 * the system says that there is no such thread. Running out of file descriptors proves nothing,
 * nor does a /proc that hides other users' processes. Threads of another namespace cannot be
 * judged, not even if their boot id differs: a container may have its own.
 */
export function livenessOf(
  other: ThreadIdentity,
  self: ThreadIdentity,
  statOf: StatOf = readStat,
): Liveness {
  if (other.namespace !== self.namespace) return 'unknown';
  if (self.tid === 0 || other.tid === 0) return exists(other.pid) ? 'unknown' : 'gone';
  if (other.boot !== self.boot) return 'gone';
  const stat = statOf(other.tid);
  if (stat === 'unreadable') return 'unknown';
  // A zombie executes nothing; it only waits for its parent to reap it.
  if (stat === undefined || stat.state === 'Z' || stat.state === 'X') return 'gone';
  const slack = process.platform === 'darwin' ? START_SLACK_SECONDS : 0;
  const isOther = Math.abs(stat.startTime - other.startTime) > slack;
  if (other.startTime !== 0 && isOther) return 'gone';
  return 'alive';
}

/** For a client that looks up threads repeatedly. */
export function statReader(): StatOf {
  return process.platform === 'linux' ? readStat : rememberingProcesses();
}

/**
 * Kills the other thread's process, if it is not this one and certainly the one meant. Between the
 * check and the signal, the process could end and its id be reused. But the kernel assigns ids in
 * turn, so that takes as many new processes as there are ids.
 */
export function endProcess(other: ThreadIdentity, self: ThreadIdentity): boolean {
  if (other.pid === self.pid || other.startTime === 0) return false;
  if (livenessOf(other, self) !== 'alive') return false;
  // A damaged row could pair a live thread with any pid; 0 would kill this process's own group.
  const stat = readStat(other.tid, other.pid);
  if (stat === undefined || stat === 'unreadable') return false;
  try {
    return process.kill(other.pid, 'SIGKILL');
  } catch {
    // Not permitted, or the process has just ended.
    return false;
  }
}

/**
 * The /proc entry of thread `tid` of process `pid`; undefined if no such thread exists. A /proc
 * mounted with hidepid=2 hides processes that this one may not inspect, so `exists` checks too.
 */
function readStat(tid: number, pid = tid): Stat | 'unreadable' | undefined {
  if (process.platform !== 'linux') return readProcess(pid);
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/task/${tid}/stat`, 'latin1');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const hasNone = code === 'ENOENT' || code === 'ESRCH';
    return hasNone && !exists(tid) ? undefined : 'unreadable';
  }
  // The second field is the command in parentheses and may hold spaces and parentheses itself.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { state: fields[0], startTime: Number(fields[19]) };
}

/** 32-bit FNV-1a. */
function fingerprint(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}
