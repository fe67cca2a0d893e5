import { testFullPool } from './cases/full-pool-processes.ts';

/** One without order, one with, and the one with servers: the campaign has the others. */
for (const index of ['race', 'chime', 'hstore'] as const) testFullPool(index);
