import { SHARD, type ShardIndex } from '../../../src/indexes/shard/shard.ts';
import type { Canary } from '../canary.ts';

/**
 * Step 5 of a migration (migration.ts) left out: nobody learns that the old place is given back.
 */
export const shardUncountedMigrationCanary: Canary = {
  name: 'a SHARD migration gives the old place back, and others still go by its addresses',
  caughtBy: 'reclamation',
  scenario: { shape: { partitions: 2 } },
  kind: SHARD,
  index: (index: ShardIndex, pool) => {
    pool.reclamation.countMigration = function* () {};
    return index;
  },
};
