import type { ThreadOptions } from '../../tcp/node/node-thread.ts';
import type { Transports } from '../transports.ts';

/** As for the thread of any node, and where its verbs run. */
export type UcxThreadOptions = ThreadOptions & { transports: Transports };
