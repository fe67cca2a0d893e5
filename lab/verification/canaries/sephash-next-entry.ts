import {
  type Condition,
  IF_ABSENT,
  INSERTED,
  type Outcome,
  REFUSED,
} from '../../../src/indexes/contract.ts';
import { claim, hasWon, newHigh, survey } from '../../../src/indexes/sephash/operations/write.ts';
import type { SepHashRequest } from '../../../src/indexes/sephash/request.ts';
import { entryLow } from '../../../src/indexes/sephash/segments/entry.ts';
import { SEPHASH, SepHashIndex } from '../../../src/indexes/sephash/sephash.ts';
import type { Operation } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

export const sepHashNextEntryCanary: Canary = {
  name: 'a SepHash insertion that goes on to the next entry',
  caughtBy: 'linearizability',
  kind: SEPHASH,
  index: ({ table }: SepHashIndex) => new NextEntry(table),
};

/** As a blind append does when its entry was taken, without looking at what has been written. */
class NextEntry extends SepHashIndex {
  override *write(request: SepHashRequest, condition: Condition, expected = 0): Operation<Outcome> {
    const { table } = this;
    if (condition !== IF_ABSENT) return yield* super.write(request, condition, expected);
    request.begin();
    yield* table.records.allocate(request);
    if (yield* survey(table, request)) {
      table.records.discard(request);
      return REFUSED;
    }
    for (let slot = request.emptySlot; slot < table.geometry.slots; slot++) {
      const low = entryLow(request.record.block);
      if (hasWon(yield* claim(table, request, slot, low, newHigh(request)))) return INSERTED;
    }
    table.records.discard(request);
    return yield* super.write(request, condition, expected);
  }
}
