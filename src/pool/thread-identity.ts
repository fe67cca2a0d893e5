import { readFileSync, readlinkSync } from 'node:fs';

/**
 * Who a client is for the operating system. A client is one thread: a worker may be terminated
 * while its process lives on.
 */
export interface ThreadIdentity {
  pid: number;
  tid: number;
  /** Clock ticks after boot at which the thread started: tells a re-used pid from the old one. */
  startTime: number;
  /** Differs after a reboot and between pid namespaces, where pids cannot be compared. */
  boot: number;
  namespace: number;
}

export type Liveness = 'alive' | 'gone' | 'unknown';

export function currentThread(): ThreadIdentity {
  try {
    const [pid, , tid] = readlinkSync('/proc/thread-self').split('/').map(Number);
    return {
      pid,
      tid,
      startTime: readStat(pid, tid)?.startTime ?? 0,
      boot: fingerprint(readFileSync('/proc/sys/kernel/random/boot_id', 'utf8')),
      namespace: fingerprint(readlinkSync('/proc/self/ns/pid')),
    };
  } catch {
    // Without /proc (macOS, where only memory: pools exist) threads cannot be told apart.
    return { pid: process.pid, tid: 0, startTime: 0, boot: 0, namespace: 0 };
  }
}

/** Whether the thread can still issue verbs, asked of the operating system. */
export function livenessOf(other: ThreadIdentity, self: ThreadIdentity): Liveness {
  if (self.tid === 0) return processExists(other.pid) ? 'alive' : 'gone';
  if (other.boot !== self.boot) return 'gone';
  if (other.namespace !== self.namespace) return 'unknown';
  const stat = readStat(other.pid, other.tid);
  // A zombie executes nothing any more; it waits only for its parent.
  if (stat === undefined || stat.state === 'Z' || stat.state === 'X') return 'gone';
  if (other.startTime !== 0 && stat.startTime !== other.startTime) return 'gone';
  return 'alive';
}

function readStat(pid: number, tid: number): { state: string; startTime: number } | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/task/${tid}/stat`, 'latin1');
  } catch {
    return undefined;
  }
  // The second field is the command in parentheses and may hold spaces and parentheses itself.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { state: fields[0], startTime: Number(fields[19]) };
}

function processExists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** 32-bit FNV-1a. */
function fingerprint(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}
