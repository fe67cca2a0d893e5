import { RACE, type RaceIndex } from '../../../src/indexes/race/race.ts';
import type { Canary } from '../canary.ts';

/** A write that is refused has a record that was never linked. */
export const leakedBlockCanary: Canary = {
  name: 'a block that nobody gives back',
  caughtBy: 'structure',
  kind: RACE,
  index: (index: RaceIndex) => {
    index.table.records.discard = (request) => request.record.forgetBlock();
    return index;
  },
};
