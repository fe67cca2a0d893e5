import { testFullPool } from './cases/full-pool-processes.ts';

for (const index of ['sephash', 'shard', 'hopscotch'] as const) testFullPool(index);
