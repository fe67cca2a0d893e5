import { GROUP_BUCKETS, RaceParts } from '../../../src/indexes/race/parts.ts';
import { RACE, RaceIndex } from '../../../src/indexes/race/race.ts';
import type { Canary } from '../canary.ts';

/** Keys that are present throughout are not met. */
export const shortWalkCanary: Canary = {
  name: 'a walk that passes over the last group of each subtable',
  caughtBy: 'linearizability',
  kind: RACE,
  index: ({ table }: RaceIndex) => new ShortWalk(table),
};

class ShortWalk extends RaceIndex {
  override parts(cursor = 0, whole = false): RaceParts {
    if (whole) return super.parts();
    const buckets = this.table.geometry.buckets - GROUP_BUCKETS;
    const geometry = Object.create(this.table.geometry, { buckets: { value: buckets } });
    const table = Object.create(this.table, { geometry: { value: geometry } });
    return new RaceParts(table, cursor);
  }
}
