import { once } from 'node:events';
import { startWorker } from '../../fabrics/start-worker.ts';
import type { BenchClient, BenchClientSetup } from './protocol.ts';

export async function startBenchClient(setup: BenchClientSetup): Promise<BenchClient> {
  const worker = startWorker(import.meta.url, 'worker', setup);
  // From the beginning: a worker that fails exits long before it is stopped.
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
