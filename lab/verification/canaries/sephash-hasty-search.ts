import {
  gather,
  postHeader,
  postRange,
  postSlots,
  readCandidates,
} from '../../../src/indexes/sephash/operations/lookup.ts';
import { aimForSearch, catchUp } from '../../../src/indexes/sephash/operations/refresh.ts';
import type { SepHashRequest } from '../../../src/indexes/sephash/request.ts';
import { mayHaveRecent } from '../../../src/indexes/sephash/segments/filter.ts';
import { SEPHASH, SepHashIndex } from '../../../src/indexes/sephash/sephash.ts';
import type { Operation } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

export const sepHashHastySearchCanary: Canary = {
  name: 'a SepHash search that does not compare the metadata',
  caughtBy: 'linearizability',
  kind: SEPHASH,
  index: ({ table }: SepHashIndex) => new HastySearch(table),
};

/** As published: the MainSegment that the cache knows, and the CurSegment as it is now. */
class HastySearch extends SepHashIndex {
  override *search(request: SepHashRequest): Operation<boolean> {
    const { table } = this;
    const { batch } = request;
    request.begin();
    for (let attempt = 1; !aimForSearch(table, request); attempt++) {
      yield* catchUp(table, request, attempt);
    }
    yield postHeader(request, postRange(request, batch.clear()));
    const recent = !table.techniques.filter || mayHaveRecent(request);
    if (recent) yield postSlots(table, request, batch.clear());
    if (gather(request, recent ? table.geometry.slots : 0) === 0) return false;
    return yield* readCandidates(request);
  }
}
