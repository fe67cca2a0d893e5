/** The thread of a memory node over UCX that has its connections; verbs run in another one. */
import { workerData } from 'node:worker_threads';
import { runNode } from '../../tcp/node/run-node.ts';
import type { UcxThreadOptions } from './start.ts';
import { VerbThread } from './verb-thread.ts';

const { transports, ...options } = workerData as UcxThreadOptions;
const { place, regionBytes } = options;

void runNode(options, async () => {
  const verbs = await VerbThread.start({ place, regionBytes, transports });
  // A node whose verbs nobody executes any more ends, with the error.
  verbs.ended.catch((error: unknown) => {
    throw error;
  });
  return verbs;
});
