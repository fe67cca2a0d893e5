import { type Condition, type Outcome, REPLACED } from '../../../src/indexes/contract.ts';
import { slotAddress } from '../../../src/indexes/race/buckets.ts';
import { fingerprintOf } from '../../../src/indexes/race/geometry.ts';
import { RACE, RaceIndex } from '../../../src/indexes/race/race.ts';
import type { RaceRequest } from '../../../src/indexes/race/request.ts';
import { locate } from '../../../src/indexes/race/search.ts';
import { replaceSlot } from '../../../src/indexes/substrates/claims/change-slot.ts';
import type { Operation } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

export const lostUpdateCanary: Canary = {
  name: 'an update that expects whatever the slot holds',
  caughtBy: 'linearizability',
  kind: RACE,
  index: ({ table }: RaceIndex) => new LostUpdate(table),
};

/** Reads the slot again right before the CAS, so that another client's update is overwritten. */
class LostUpdate extends RaceIndex {
  override *write(request: RaceRequest, condition: Condition, expected = 0): Operation<Outcome> {
    const { table } = this;
    if (condition !== 0) return yield* super.write(request, condition, expected);
    request.fingerprint = fingerprintOf(request.hash.h1);
    yield* table.records.allocate(request);
    if (!(yield* locate(table, request))) {
      table.records.discard(request);
      return yield* super.write(request, condition, expected);
    }
    const { batch, words, slotAt } = request;
    yield batch.clear().read(slotAddress(table, request, slotAt), 8, words, slotAt);
    return (yield* replaceSlot(this.slots, request, 1))
      ? REPLACED
      : yield* super.write(request, condition);
  }
}
