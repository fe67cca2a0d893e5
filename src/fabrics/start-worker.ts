import { extname } from 'node:path';
import { type TransferListItem, Worker } from 'node:worker_threads';
import { StepwellError } from '../errors.ts';
import { sourceProgram } from './source-program.ts';

/**
 * Starts the file `name` beside that of the module `from` in a thread, sources or compiled. Raises
 * SW_PERMISSION_DENIED where Node's permission model allows no threads.
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
