import { SEPHASH, SepHashIndex } from '../../../src/indexes/sephash/sephash.ts';
import type { Operation } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

/** A walk that reads the old MainSegment meets entries of the new one. */
export const sepHashHastyCompactionCanary: Canary = {
  name: 'a SepHash compaction that copies a MainSegment home without a grace period',
  caughtBy: 'linearizability',
  scenario: { swarm: { crowded: true, chunks: 6, insists: true, startup: 'prepared', walks: 25 } },
  kind: SEPHASH,
  index: ({ table }: SepHashIndex) => new HastyCompaction(table),
};

class HastyCompaction extends SepHashIndex {
  override compact(): Operation<number> {
    return super.compact(atOnce, true);
  }
}

function* atOnce(): Operation<boolean> {
  yield* [];
  return true;
}
