import { existsSync, readFileSync, readlinkSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';
import { StepwellError } from '../../errors.ts';
import {
  askPs,
  exists,
  readProcess,
  rememberingProcesses,
  type Stat,
  type StatOf,
} from './process-stat.ts';

/** Bits of the namespace that fit a row's state word. */
export const NAMESPACE_BITS = 22;
const NAMESPACE_MASK = 2 ** NAMESPACE_BITS - 1;
/**
 * The namespace of clients that come over the network: their thread is the tag of a session, their
 * start time the session. Only memory nodes can tell whether such a client is there.
 */
export const NETWORK_NAMESPACE = NAMESPACE_MASK;

/**
 * What a client is for the operating system. A client is one thread: a worker may be terminated
 * while its process lives on.
 */
export interface ThreadIdentity {
  pid: number;
  tid: number;
  /**
   * When the thread started: tells a re-used pid from the old one. In clock ticks after boot; where
   * only processes can be asked for, in seconds since 1970, of the process.
   */
  startTime: number;
  /** Differs after a reboot. LXC and systemd-nspawn show each container a boot id of its own. */
  boot: number;
  /** Process ids and start times of two namespaces cannot be compared. */
  namespace: number;
}

export type Liveness = 'alive' | 'gone' | 'unknown';

/** `ps` computes when a process started from two clocks, on some systems. */
const START_SLACK_SECONDS = 2;

/**
 * Off Linux only processes can be asked for. The main thread ends with its process, so in a file it
 * stands as thread `pid`; of any other thread (0) nothing tells that it was terminated while its
 * process lives on. Raises SW_UNSUPPORTED where the operating system does not tell (except for
 * `memory:` off Linux), SW_PERMISSION_DENIED where Node may not ask it.
 */
export function currentThread(isInFile = false): ThreadIdentity {
  if (process.platform !== 'linux') {
    const { pid } = process;
    const startTime = isInFile ? ownStart(pid) : 0;
    return { pid, tid: isInFile && isMainThread ? pid : 0, startTime, boot: 0, namespace: 0 };
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
    const stat = askPs(pid);
    if (stat !== 'unreadable') return stat.startTime;
  } catch (cause) {
    const isDenied = (cause as NodeJS.ErrnoException).code === 'ERR_ACCESS_DENIED';
    if (!isDenied) throw new StepwellError('SW_UNSUPPORTED', why, { cause });
    const remedy = "which Node's permission model (--permission) denies: add --allow-child-process";
    throw new StepwellError('SW_PERMISSION_DENIED', `${why}, ${remedy}`, { cause });
  }
  throw new StepwellError('SW_UNSUPPORTED', `${why}, with -o stat= -o lstart=`);
}

/**
 * In a pid namespace without a /proc of its own the ids here are those of another namespace: they
 * name other processes to clients of this one, and to `kill`. Only threads of this process may be
 * compared then. A start time is told from the boot of the reader's time namespace, if any.
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
 * Whether the thread can still issue verbs, asked of the operating system. It counts as gone only
 * when the system says that there is no such thread. A full table of open files proves nothing, nor
 * does a /proc that hides others. Threads of another pid namespace cannot be asked about, not even
 * when they name another boot: a container may have been given that id.
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
  // A zombie executes nothing any more; it waits only for its parent.
  if (stat === undefined || stat.state === 'Z' || stat.state === 'X') return 'gone';
  const slack = process.platform === 'linux' ? 0 : START_SLACK_SECONDS;
  const isOther = Math.abs(stat.startTime - other.startTime) > slack;
  if (other.startTime !== 0 && isOther) return 'gone';
  return 'alive';
}

/** For a client that asks again and again. */
export function statReader(): StatOf {
  return process.platform === 'linux' ? readStat : rememberingProcesses();
}

/**
 * Kills the other thread's process, if it is another one and certainly the one that is meant.
 * Between the look and the signal the process can end and its id be given away; the kernel gives
 * ids away in turn, so that takes as many new processes as there are ids.
 */
export function endProcess(other: ThreadIdentity, self: ThreadIdentity): boolean {
  if (other.pid === self.pid || other.startTime === 0) return false;
  if (livenessOf(other, self) !== 'alive') return false;
  // A damaged row could name any process beside a living thread; 0 would be this process's group.
  const stat = readStat(other.tid, other.pid);
  if (stat === undefined || stat === 'unreadable') return false;
  try {
    return process.kill(other.pid, 'SIGKILL');
  } catch {
    // Not ours to kill, or gone this moment.
    return false;
  }
}

/**
 * A thread's own entry, which a thread id alone names; undefined when there is no such thread, or
 * none of this process. A /proc that is mounted with hidepid=2 has no entries of processes that
 * this one may not look into.
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
