import type { Condition, Outcome } from '../../../src/indexes/contract.ts';
import { type SepHashRequest, ZERO_AT } from '../../../src/indexes/sephash/request.ts';
import { SEPHASH, SepHashIndex } from '../../../src/indexes/sephash/sephash.ts';
import { CAS, WRITE } from '../../../src/verbs/batch.ts';
import type { Batch, Operation } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

export const sepHashLateMarkCanary: Canary = {
  name: 'a SepHash append that changes the filter behind its entry',
  // The writer must die between the two. Random programs seldom search for its record in time.
  caughtBy: 'structure',
  kind: SEPHASH,
  index: ({ table }: SepHashIndex) => new LateMark(table),
};

/** Swaps the two verbs: the entry, then the filter, as the paper does, but in one doorbell. */
class LateMark extends SepHashIndex {
  override *write(request: SepHashRequest, condition: Condition, expected = 0): Operation<Outcome> {
    const writing = super.write(request, condition, expected);
    for (let step = writing.next(); ; step = writing.next()) {
      if (step.done) return step.value;
      if (endsWithMark(step.value)) swapLast(step.value);
      yield step.value;
    }
  }
}

function endsWithMark({ kind, offset, length }: Batch): boolean {
  const at = length - 2;
  return at >= 0 && kind[at] === WRITE && offset[at] === ZERO_AT && kind[at + 1] === CAS;
}

function swapLast({ kind, address, bytes, offset, scratch, length }: Batch): void {
  for (const row of [kind, address, bytes, offset, scratch]) {
    [row[length - 2], row[length - 1]] = [row[length - 1], row[length - 2]];
  }
}
