import { conformanceOnNodes } from './cases/memory-nodes.ts';

/** All cases of every index. */
for (const nodes of [1, 3]) conformanceOnNodes(nodes);
