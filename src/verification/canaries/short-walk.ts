import type { RaceTable } from '../../indexes/race/table.ts';
import type { Canary } from '../simulation.ts';

/** Keys that are present throughout are not met. */
export const shortWalkCanary: Canary = {
  name: 'a walk that passes over the last group of each subtable',
  caughtBy: 'linearizability',
  walk: withFewerBuckets,
};

const GROUP_BUCKETS = 3;

function withFewerBuckets(table: RaceTable): RaceTable {
  const buckets = table.geometry.buckets - GROUP_BUCKETS;
  const geometry = Object.create(table.geometry, { buckets: { value: buckets } });
  return Object.create(table, { geometry: { value: geometry } });
}
