import { gatherLive, postBuckets } from '../../../src/indexes/race/buckets.ts';
import { fingerprintOf } from '../../../src/indexes/race/geometry.ts';
import { RACE, RaceIndex } from '../../../src/indexes/race/race.ts';
import type { RaceRequest } from '../../../src/indexes/race/request.ts';
import {
  matchCandidate,
  postCandidates,
} from '../../../src/indexes/substrates/claims/slot-candidates.ts';
import type { Operation } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

export const hastySearchCanary: Canary = {
  name: 'a search whose miss needs no certainty',
  caughtBy: 'linearizability',
  kind: RACE,
  index: ({ table }: RaceIndex) => new HastySearch(table),
};

/** Takes not finding the key for its absence, whatever state the buckets are in. */
class HastySearch extends RaceIndex {
  override *search(request: RaceRequest): Operation<boolean> {
    const { table } = this;
    request.fingerprint = fingerprintOf(request.hash.h1);
    yield postBuckets(table, request, request.batch.clear());
    if (gatherLive(table, request) === 0) return false;
    yield postCandidates(request, request.batch.clear());
    return matchCandidate(request);
  }
}
