import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { startWorker } from '../../../../fabrics/tcp/node/start-worker.ts';
import type { Scope } from '../pools.ts';
import { RUNTIME } from '../runtime.ts';
import type { Order } from './child-tasks.ts';
import type { ThreadTask } from './worker-tasks.ts';

const SCRIPT = new URL('./child-tasks.ts', import.meta.url);

/** A child process that obeys one order at a time (child-tasks.ts). */
export class Child {
  readonly process: ChildProcess;
  readonly exited: Promise<unknown[]>;

  constructor(scope: Scope) {
    this.process = fork(SCRIPT, [], { execArgv: [...RUNTIME], silent: true });
    this.exited = once(this.process, 'exit');
    scope.after(async () => {
      if (this.process.exitCode === null && this.process.signalCode === null) {
        this.process.kill('SIGKILL');
        await this.exited;
      }
    });
  }

  /** What the order returned; a text with the error when it failed. */
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

/** Runs a task in another thread and returns its result. */
export async function inThread(task: ThreadTask): Promise<unknown> {
  const worker = startWorker(import.meta.url, 'worker-tasks', task);
  const exited = once(worker, 'exit');
  const [result] = await once(worker, 'message');
  await exited;
  return result;
}
