/** Entry of a benchmark client's thread: opens the store, then runs what it is told. */
import { parentPort, workerData } from 'node:worker_threads';
import { openSync } from '../store/open.ts';
import type { BenchClientSetup } from './bench-client.ts';
import { BenchLoop, type BenchTask } from './bench-loop.ts';

const setup = workerData as BenchClientSetup;
const port = parentPort!;
const store = openSync<Uint8Array>(setup.handle, {
  store: setup.store,
  create: false,
  values: 'bytes',
  client: `bench ${setup.client}`,
});
const loop = new BenchLoop(store, setup, () => performance.now());

port.on('message', (message: BenchTask | 'stop') => {
  if (message === 'stop') {
    store.close();
    port.close();
  } else {
    port.postMessage(loop.run(message));
  }
});
port.postMessage('ready');
