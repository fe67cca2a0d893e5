/** The thread of a benchmark client: opens the store, then runs tasks. */
import { parentPort, workerData } from 'node:worker_threads';
import { open, openSync } from '../../store/open.ts';
import { poolOf } from '../../store/places/pool-place.ts';
import { isRemote } from '../../store/remote/address.ts';
import {
  AwaitedBenchLoop,
  type BenchClientSetup,
  BenchLoop,
  type BenchTask,
} from './bench-client.ts';

const setup = workerData as BenchClientSetup;
const port = parentPort!;
const { handle } = setup;
const options = {
  store: setup.store,
  create: false,
  values: 'bytes',
  client: `bench ${setup.client}`,
} as const;
const now = () => performance.now();
const opening = isRemote(poolOf(handle)) ? openAwaited() : openAtOnce();

async function openAtOnce() {
  const store = openSync<Uint8Array>(handle, options);
  return { store, loop: new BenchLoop(store, setup, now) };
}

async function openAwaited() {
  const store = await open<Uint8Array>(handle, options);
  return { store, loop: new AwaitedBenchLoop(store, setup, now) };
}

void opening.then(({ store, loop }) => {
  port.on('message', async (message: BenchTask | 'stop') => {
    if (message === 'stop') {
      await store.close();
      port.close();
    } else {
      port.postMessage(await loop.run(message));
    }
  });
  port.postMessage('ready');
});
