import {
  gather,
  postMeta,
  postRange,
  postSlots,
  readCandidates,
} from '../../../src/indexes/sephash/operations/lookup.ts';
import { aimForSearch, catchUp } from '../../../src/indexes/sephash/operations/refresh.ts';
import { FILTER_AT, type SepHashRequest } from '../../../src/indexes/sephash/request.ts';
import { postFilter } from '../../../src/indexes/sephash/segments/filter.ts';
import { SEPHASH, SepHashIndex } from '../../../src/indexes/sephash/sephash.ts';
import { highHalf, type Operation } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

export const sepHashTrustingSearchCanary: Canary = {
  name: 'a SepHash search that trusts a filter word of other metadata',
  caughtBy: 'linearizability',
  kind: SEPHASH,
  index: ({ table }: SepHashIndex) => new TrustingSearch(table),
};

/** Takes any word but 0 to mean that no entry has the fingerprint. */
class TrustingSearch extends SepHashIndex {
  override *search(request: SepHashRequest): Operation<boolean> {
    const { table } = this;
    const { batch } = request;
    if (!table.techniques.filter) return yield* super.search(request);
    request.begin();
    for (let attempt = 1; ; attempt++) {
      if (!aimForSearch(table, request)) {
        yield* catchUp(table, request, attempt);
        continue;
      }
      yield postFilter(table, request, postRange(request, batch.clear()));
      const recent = highHalf(request.words, FILTER_AT) === 0;
      if (recent) yield postMeta(request, postSlots(table, request, batch.clear()));
      if (recent && !request.metaHolds()) continue;
      if (gather(request, recent ? table.geometry.slots : 0) === 0) return false;
      return yield* readCandidates(request);
    }
  }
}
