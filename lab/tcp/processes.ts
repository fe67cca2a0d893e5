import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { extname } from 'node:path';
import type { Cleanup } from '../support/cleanup.ts';

/** Starts a file of this folder as a process, which ends with this one. */
export function startProcess(cleanup: Cleanup, name: string, words: readonly string[]) {
  const entry = new URL(`./${name}${extname(import.meta.url)}`, import.meta.url);
  const child = fork(entry, [...words]);
  cleanup.add(() => endProcess(child));
  return child;
}

/** The next message of a process; an error when it ends instead. */
export function firstMessage<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    const ended = (code: number | null) => {
      child.off('message', heard);
      reject(new Error(`a process of the benchmark ended with ${code}`));
    };
    const heard = (message: unknown) => {
      child.off('exit', ended);
      resolve(message as T);
    };
    child.once('message', heard);
    child.once('exit', ended);
  });
}

export async function endProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  await exited;
}
