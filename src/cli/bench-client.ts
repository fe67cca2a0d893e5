import { once } from 'node:events';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { PoolHandle } from '../store/api.ts';
import type { BenchTask, Measured } from './bench-loop.ts';

export interface BenchClientSetup {
  handle: PoolHandle;
  store: string;
  /** Which of `clients` this is, from 0. */
  client: number;
  clients: number;
  records: number;
  valueSize: number;
}

/** One client of a benchmark, in a thread of its own. */
export interface BenchClient {
  run(task: BenchTask): Promise<Measured>;
  stop(): Promise<void>;
}

export async function startBenchClient(setup: BenchClientSetup): Promise<BenchClient> {
  const worker = startWorker(setup);
  // From the beginning: a worker that fails exits long before anybody stops it.
  const exited = new Promise((resolve) => worker.once('exit', resolve));
  await once(worker, 'message');
  return {
    run: async (task) => {
      worker.postMessage(task);
      const [measured] = await once(worker, 'message');
      return measured;
    },
    stop: async () => {
      worker.postMessage('stop');
      await exited;
    },
  };
}

/** Starts the file beside this one, from the sources or compiled. */
function startWorker(setup: BenchClientSetup): Worker {
  const extension = extname(import.meta.url);
  const entry = new URL(`./bench-worker${extension}`, import.meta.url);
  if (extension === '.js') return new Worker(entry, { workerData: setup });
  // While developing, sources run through tsx, which Node 20 does not take along into threads.
  const tsx = JSON.stringify(import.meta.resolve('tsx/esm/api'));
  const load = `import(${tsx}).then((tsx) => (tsx.register(), import('${entry.href}')))`;
  return new Worker(load, { eval: true, workerData: setup });
}
