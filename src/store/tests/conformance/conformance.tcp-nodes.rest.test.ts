import { conformanceOnNodes } from './cases/memory-nodes.ts';

// A file of its own: in one, the two would run alone at the end, and use one processor.
conformanceOnNodes(3);
