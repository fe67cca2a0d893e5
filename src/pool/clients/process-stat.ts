import { execFileSync } from 'node:child_process';

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
/** How long an answer of `ps`, which takes some milliseconds, is reused. */
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

/** Looks a process up by `ps`, as POSIX allows; start times are in whole seconds. */
export function readProcess(pid: number): Stat | 'unreadable' | undefined {
  if (!exists(pid)) return undefined;
  try {
    return askPs(pid);
  } catch {
    // It may have ended meanwhile.
    return exists(pid) ? 'unreadable' : undefined;
  }
}

/** Runs `ps`. Raises what `execFileSync` raises. */
export function askPs(pid: number): Stat | 'unreadable' {
  const env = { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' };
  const words = ['-o', 'stat=', '-o', 'lstart=', '-p', String(pid)];
  const stdio: ('ignore' | 'pipe')[] = ['ignore', 'pipe', 'ignore'];
  const text = execFileSync('ps', words, { env, encoding: 'utf8', timeout: TIMEOUT_MS, stdio });
  const [, state, started] = /^\s*(\S+)\s+(.*\S)\s*$/.exec(text) ?? [];
  const startTime = Date.parse(`${started} UTC`) / 1000;
  return Number.isSafeInteger(startTime) ? { state: state[0], startTime } : 'unreadable';
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
