import { NodeThread, type ThreadOptions } from '../../tcp/node/node-thread.ts';
import type { Transports } from '../transports.ts';

/** The options of a node, and the transports of its verbs. */
export type UcxThreadOptions = ThreadOptions & { transports: Transports };

/**
 * Starts a memory node whose verbs run over UCX. Raises what `NodeThread.start` raises, and
 * SW_UNSUPPORTED if UCX is not installed or this machine has no such transport.
 */
export function startUcxNode(options: UcxThreadOptions): Promise<NodeThread> {
  return NodeThread.start(options, import.meta.url);
}
