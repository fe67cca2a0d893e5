import { type ChildProcess, fork, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { Worker } from 'node:worker_threads';
import { startWorker } from '../../../../fabrics/start-worker.ts';
import type { Scope } from '../pools.ts';
import { RUNTIME } from '../runtime.ts';
import type { Order } from './child-tasks.ts';
import { untilStopped } from './remote-processes.ts';
import type { ThreadTask } from './worker-tasks.ts';

const SCRIPT = new URL('./child-tasks.ts', import.meta.url);

const UNSHARE = ['unshare', '--pid', '--fork', '--mount-proc', '--kill-child'] as const;

/** Why a test is left out that needs processes in a pid namespace of their own. */
export function noPidNamespaces(): false | string {
  const { status } = spawnSync(UNSHARE[0], [...UNSHARE.slice(1), 'true'], { stdio: 'ignore' });
  return status === 0 ? false : 'needs the right to make pid namespaces (unshare)';
}

/**
 * A child process that obeys one order at a time (child-tasks.ts); with `alone` in a pid namespace
 * of its own, as a container is; with `preload` it imports a module first.
 */
export class Child {
  readonly process: ChildProcess;
  readonly exited: Promise<unknown[]>;
  readonly #alone: boolean;

  constructor(scope: Scope, alone = false, preload?: URL) {
    const first = preload ? ['--import', preload.href] : [];
    const [execPath, ...words] = alone ? [...UNSHARE, process.execPath] : [process.execPath];
    this.process = fork(SCRIPT, [], {
      execPath,
      execArgv: [...words, ...RUNTIME, ...first],
      silent: true,
    });
    this.#alone = alone;
    this.exited = once(this.process, 'exit');
    scope.after(async () => {
      if (this.process.exitCode === null && this.process.signalCode === null) {
        this.process.kill('SIGKILL');
        await this.exited;
      }
    });
  }

  /** The process that obeys; `unshare` is its parent. */
  get #pid(): number {
    const pid = this.process.pid as number;
    if (!this.#alone) return pid;
    return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8'));
  }

  async signal(name: NodeJS.Signals): Promise<void> {
    process.kill(this.#pid, name);
    if (name === 'SIGSTOP') await untilStopped(this.#pid);
    if (name === 'SIGKILL') await this.exited;
  }

  /** Returns the order's result; a text with the error when it failed. */
  async ask(order: Order): Promise<unknown> {
    const stopped = this.exited.then(([code, signal]) => {
      throw new Error(`the child ended with code ${code}, signal ${signal}`);
    });
    // Only the race below may report it.
    stopped.catch(() => {});
    const answered = once(this.process, 'message').then(([answer]) => answer as unknown);
    this.process.send(order);
    return Promise.race([answered, stopped]);
  }
}

export function startThread(task: ThreadTask): Worker {
  return startWorker(import.meta.url, 'worker-tasks', task);
}

/** Runs a task in another thread and returns its result. */
export async function inThread(task: ThreadTask): Promise<unknown> {
  const worker = startThread(task);
  const exited = once(worker, 'exit');
  const [result] = await once(worker, 'message');
  await exited;
  return result;
}
