import { padHigh } from '../../../src/indexes/sephash/segments/entry.ts';
import { SEPHASH, SepHashIndex } from '../../../src/indexes/sephash/sephash.ts';
import { CAS } from '../../../src/verbs/batch.ts';
import type { Batch, Operation } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

/** An append that is as late as two compactions takes the entry of a pad for an empty one. */
export const sepHashNamelessPadCanary: Canary = {
  name: 'a SepHash compaction whose pads do not name the epoch',
  caughtBy: 'linearizability',
  kind: SEPHASH,
  index: ({ table }: SepHashIndex) => new NamelessPads(table),
};

class NamelessPads extends SepHashIndex {
  override *compact(grace: () => Operation<boolean>, forDeletion: boolean): Operation<number> {
    const compacting = super.compact(grace, forDeletion);
    for (let step = compacting.next(); ; step = compacting.next()) {
      if (step.done) return step.value;
      forgetEpochs(step.value);
      yield step.value;
    }
  }
}

/** Removes the epoch from the pads that the batch would put into entries. */
function forgetEpochs({ kind, scratch, offset, length }: Batch): void {
  for (let i = 0; i < length; i++) {
    if (kind[i] !== CAS) continue;
    const desired = (offset[i] + 8) >> 2;
    const { i32 } = scratch[i];
    const high = i32[desired + 1];
    if (high === padHigh(0) || high === padHigh(1)) i32[desired] = 0;
  }
}
