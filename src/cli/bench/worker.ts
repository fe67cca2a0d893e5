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
const [store, loop] = isRemote(poolOf(handle)) ? await openAwaited() : openAtOnce();

function openAtOnce() {
  const shared = openSync<Uint8Array>(handle, options);
  return [shared, new BenchLoop(shared, setup, now)] as const;
}

async function openAwaited() {
  const remote = await open<Uint8Array>(handle, options);
  return [remote, new AwaitedBenchLoop(remote, setup, now)] as const;
}

port.on('message', async (message: BenchTask | 'stop') => {
  if (message === 'stop') {
    await store.close();
    port.close();
  } else {
    port.postMessage(await loop.run(message));
  }
});
port.postMessage('ready');
