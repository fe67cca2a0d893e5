import { extname } from 'node:path';
import { type TransferListItem, Worker } from 'node:worker_threads';
import { type ErrorCode, StepwellError } from '../errors.ts';
import { sourceProgram } from './source-program.ts';

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
  const isSource = extension === '.ts';
  try {
    const program = isSource ? sourceProgram(entry) : entry;
    return new Worker(program, { eval: isSource, workerData, transferList });
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
