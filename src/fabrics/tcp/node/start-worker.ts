import { extname } from 'node:path';
import { type TransferListItem, Worker } from 'node:worker_threads';

/** Starts the file `name` beside that of the module `from` in a thread, sources or compiled. */
export function startWorker(
  from: string,
  name: string,
  workerData: unknown,
  transferList: TransferListItem[] = [],
): Worker {
  const extension = extname(from);
  const entry = new URL(`./${name}${extension}`, from);
  if (extension === '.js') return new Worker(entry, { workerData, transferList });
  // While developing, sources run through tsx, which Node 20 does not take along into threads.
  const tsx = JSON.stringify(import.meta.resolve('tsx/esm/api'));
  const load = `import(${tsx}).then((tsx) => (tsx.register(), import('${entry.href}')))`;
  return new Worker(load, { eval: true, workerData, transferList });
}
