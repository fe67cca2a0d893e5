import { conformanceOnNodes } from './cases/memory-nodes.ts';

/** What every store must do over TCP, by handles that keep decoded values. */
for (const nodes of [1, 3]) conformanceOnNodes(nodes, { nearCache: 1000 });
