/** The thread of blocking stores: has the connections, and does one call after the other. */
import { parentPort } from 'node:worker_threads';
import type { AsyncStore } from '../api.ts';
import { open } from '../open.ts';
import type { BlockingAnswer, BlockingCall, BlockingTask } from './blocking-thread.ts';

async function attempt(action: () => Promise<unknown>): Promise<BlockingAnswer> {
  try {
    return { value: await action() };
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    return { code, message };
  }
}

async function collect(found: AsyncIterable<unknown>): Promise<unknown[]> {
  const all: unknown[] = [];
  for await (const one of found) all.push(one);
  return all;
}

async function perform(store: AsyncStore, { method, args }: BlockingCall): Promise<unknown> {
  const act = store[method as 'get'] as (...args: unknown[]) => unknown;
  const returned = act.apply(store, args);
  return method === 'keys' || method === 'entries'
    ? collect(returned as AsyncIterable<unknown>)
    : returned;
}

async function serve({ url, options, port, answered }: BlockingTask): Promise<void> {
  const opened = await attempt(async () => {
    const store = await open(url, options);
    port.on('message', async (call: BlockingCall) => {
      port.postMessage(await attempt(() => perform(store, call)));
      Atomics.store(answered, 0, 1);
      Atomics.notify(answered, 0);
    });
  });
  port.postMessage(opened);
}

parentPort?.on('message', serve);
