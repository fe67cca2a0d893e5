import { NodeThread, type ThreadOptions } from '../../tcp/node/node-thread.ts';
import type { Transports } from '../transports.ts';

/** As for the thread of any node, and where its verbs run. */
export type UcxThreadOptions = ThreadOptions & { transports: Transports };

/**
 * Starts a memory node whose verbs run over UCX. Raises what `NodeThread.start` raises, and
 * SW_UNSUPPORTED when UCX is not installed, or this machine has no such transport.
 */
export function startUcxNode(options: UcxThreadOptions): Promise<NodeThread> {
  return NodeThread.start(options, import.meta.url);
}
