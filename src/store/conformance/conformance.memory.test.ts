import { conformanceOnMemory } from './cases/on-memory.ts';

conformanceOnMemory({ largeValues: true });
