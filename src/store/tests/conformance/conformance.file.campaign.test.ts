import { conformanceOn } from './cases/local.ts';

/** One index without order and one with: `shm:`, the same fabric at another place, has them all. */
conformanceOn('file', (index) =>
  process.platform === 'win32' || index === 'race' || index === 'chime'
    ? { twins: ['sync'], bounded: false }
    : undefined,
);
