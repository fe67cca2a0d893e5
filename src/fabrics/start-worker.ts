import { extname } from 'node:path';
import { type TransferListItem, Worker, type WorkerOptions } from 'node:worker_threads';
import { type ErrorCode, StepwellError } from '../errors.ts';

/**
 * Starts a thread with the file `name` in the folder of the module `from`, source or compiled.
 * Raises SW_PERMISSION_DENIED if Node's permission model allows no threads.
 */
export function startWorker(
  from: string,
  name: string,
  workerData: unknown,
  transferList: TransferListItem[] = [],
): Worker {
  const extension = extname(from);
  const entry = new URL(`./${name}${extension}`, from);
  if (extension === '.js') return start(entry, { workerData, transferList });
  // In development, sources run through tsx, which Node 20 does not pass on to threads.
  const tsx = JSON.stringify(import.meta.resolve('tsx/esm/api'));
  const load = `import(${tsx}).then((tsx) => (tsx.register(), import('${entry.href}')))`;
  return start(load, { eval: true, workerData, transferList });
}

function start(program: string | URL, options: WorkerOptions): Worker {
  try {
    return new Worker(program, options);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ERR_ACCESS_DENIED') throw cause;
    const why = "Node's permission model (--permission) allows this process no threads";
    throw new StepwellError('SW_PERMISSION_DENIED', `${why}; add --allow-worker`, { cause });
  }
}

/** The message by which a thread reports that it failed: an error sent as such loses its code. */
export interface ThreadFailure {
  kind: 'failed';
  code: string | undefined;
  message: string;
}

export function failureOf(error: unknown): ThreadFailure {
  const { code, message } = error as { code?: string; message: string };
  return { kind: 'failed', code, message };
}

export function errorOf({ code, message }: ThreadFailure): Error {
  if (!code?.startsWith('SW_')) return new Error(message);
  return new StepwellError(code as ErrorCode, message);
}
