import { conformanceOnNodes } from './cases/memory-nodes.ts';

conformanceOnNodes(1);
