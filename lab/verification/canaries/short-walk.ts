import { RACE, RaceIndex } from '../../../src/indexes/race/race.ts';
import { RaceWalk, WALK_START } from '../../../src/indexes/race/walk.ts';
import type { Canary } from '../canary.ts';

/** Keys that are present throughout are not met. */
export const shortWalkCanary: Canary = {
  name: 'a walk that passes over the last group of each subtable',
  caughtBy: 'linearizability',
  kind: RACE,
  index: ({ table }: RaceIndex) => new ShortWalk(table),
};

const GROUP_BUCKETS = 3;

class ShortWalk extends RaceIndex {
  override walk(): RaceWalk {
    const buckets = this.table.geometry.buckets - GROUP_BUCKETS;
    const geometry = Object.create(this.table.geometry, { buckets: { value: buckets } });
    const table = Object.create(this.table, { geometry: { value: geometry } });
    return new RaceWalk(table, this.newRequest(), { ...WALK_START });
  }
}
