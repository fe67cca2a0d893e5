/** The thread of a memory node: see node-thread.ts. */
import { workerData } from 'node:worker_threads';
import type { ThreadOptions } from './node-thread.ts';
import { runNode } from './run-node.ts';

void runNode(workerData as ThreadOptions);
