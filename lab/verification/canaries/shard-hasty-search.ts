import {
  beginGathering,
  gather,
  hasOverflowed,
  postLevel1,
} from '../../../src/indexes/shard/operations/buckets.ts';
import { SHARD, ShardIndex } from '../../../src/indexes/shard/shard.ts';
import type { ShardRequest } from '../../../src/indexes/shard/table/request.ts';
import {
  matchCandidate,
  readCandidates,
} from '../../../src/indexes/substrates/claims/slot-candidates.ts';
import type { Operation } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

export const shardHastySearchCanary: Canary = {
  name: 'a SHARD search that takes a miss in a bucket of another version for an answer',
  caughtBy: 'linearizability',
  kind: SHARD,
  index: ({ partitions }: ShardIndex) => new HastySearch(partitions),
};

/** Without a look at the stamps: the key may have been moved, or not be there yet. */
class HastySearch extends ShardIndex {
  override *search(request: ShardRequest): Operation<boolean> {
    const { table } = this;
    request.begin();
    yield postLevel1(table, request, request.batch.clear());
    beginGathering(request);
    gather(table, request, 0);
    yield* readCandidates(request);
    if (matchCandidate(request)) return true;
    return hasOverflowed(request) ? yield* super.search(request) : false;
  }
}
