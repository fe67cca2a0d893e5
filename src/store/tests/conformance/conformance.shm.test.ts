import { conformanceOn } from './cases/local.ts';

conformanceOn('shm', (index) => ({ twins: ['sync'], bounded: index === 'race' }));
