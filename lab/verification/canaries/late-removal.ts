import { RACE, RaceIndex } from '../../../src/indexes/race/race.ts';
import type { RaceRequest } from '../../../src/indexes/race/request.ts';
import type { Operation } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

export const lateRemovalCanary: Canary = {
  name: 'a removal that compares the version first and removes whatever is there then',
  caughtBy: 'linearizability',
  kind: RACE,
  index: ({ table }: RaceIndex) => new LateRemoval(table),
};

/** Between the search and the removal another client may replace the record. */
class LateRemoval extends RaceIndex {
  override *remove(request: RaceRequest, expected?: number): Operation<boolean> {
    if (!(yield* this.search(request))) return false;
    if (expected !== undefined && request.found.version !== expected) return false;
    return yield* super.remove(request);
  }
}
