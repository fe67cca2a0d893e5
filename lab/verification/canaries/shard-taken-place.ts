import { Move } from '../../../src/indexes/shard/resizing/move-bucket.ts';
import { SHARD, type ShardIndex } from '../../../src/indexes/shard/shard.ts';
import type { Operation } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

/** A mover's WRITE of a bucket (SHARD, Algorithm 3, line 11) without its barrier (Algorithm 4). */
export const shardTakenPlaceCanary: Canary = {
  name: 'a SHARD bucket is filled in its place by every mover that meets it, however late',
  caughtBy: 'linearizability',
  scenario: { swarm: { crowded: true } },
  kind: SHARD,
  index: (index: ShardIndex) => {
    const { table } = index;
    for (let i = 0; i < MOVES; i++) table.idleMoves.push(new HastyMove(table));
    return index;
  },
};

/** As many as operations in flight. */
const MOVES = 8;

class HastyMove extends Move {
  override *complete(): Operation<void> {
    const { target } = this;
    // The other one's WRITE may come when the bucket has been in use for some time.
    if (target.isAbandoned) target.isOwn = true;
    yield* super.complete();
  }
}
