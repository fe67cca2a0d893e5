/** The thread with the connections of a memory node over UCX; verbs run in another thread. */
import { workerData } from 'node:worker_threads';
import { runNode } from '../../tcp/node/run-node.ts';
import type { UcxThreadOptions } from './start.ts';
import { VerbThread } from './verb-thread.ts';

const { transports, ...options } = workerData as UcxThreadOptions;
const { place, regionBytes } = options;

void runNode(options, async () => {
  const verbs = await VerbThread.start({ place, regionBytes, transports });
  // If the verb thread fails, the node ends with its error.
  verbs.ended.catch((error: unknown) => {
    throw error;
  });
  return verbs;
});
