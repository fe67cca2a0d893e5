import { once } from 'node:events';
import { startWorker } from '../fabrics/tcp/node/start-worker.ts';
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
  const worker = startWorker(import.meta.url, 'bench-worker', setup);
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
