import type { IndexParameters } from '../../indexes/contract.ts';
import { ShardGeometry } from '../../indexes/shard/geometry.ts';
import { resize } from '../../indexes/shard/resize.ts';
import { eachBucket, type VisitedBucket } from '../../indexes/shard/shape.ts';
import { SHARD, type ShardIndex, shapeFrom } from '../../indexes/shard/shard.ts';
import { fingerprintOf, isEmpty, isLive, pointerOf } from '../../indexes/shard/slot.ts';
import type { Techniques } from '../../indexes/shard/table.ts';
import type { Prng } from '../../random/prng.ts';
import type { Address, Operation } from '../../verbs/index.ts';
import type { Subject } from './subject.ts';

const RESIZES = 6;

export const SHARD_SUBJECT: Subject = {
  kind: SHARD,
  parameters: (prng, crowded) => ({
    buckets: 1 + prng.below(2),
    level1: 1 + prng.below(crowded ? 2 : 4),
    level2: 1 + prng.below(2),
    threshold: [2, 10, 40, 80, 100][prng.below(5)],
    alpha: [1, 1000, 100_000][prng.below(3)],
    resizes: prng.below(4) === 0 ? prng.below(3) : RESIZES,
    ordered: prng.below(6) === 0 ? 0 : 1,
    partitions: 1,
    seed: prng.next32(),
  }),
  // Keys that fill levels 1 and 2 make it resize: every bucket then waits for its first visitor.
  smallest: {
    buckets: 1,
    level1: 2,
    level2: 1,
    threshold: 100,
    alpha: 1,
    resizes: 2,
    ordered: 1,
    partitions: 1,
    seed: 7,
  },
  place({ h1, h2, h3, h4 }, parameters) {
    const geometry = new ShardGeometry(shapeFrom(parameters));
    const start = geometry.startSlot(h3);
    const buckets = [h1, h2, h3, h4].map((hash) => geometry.bucketOf(hash, 0));
    return `${buckets.join('/')}/${start}`;
  },
  fingerprint: ({ h4 }) => fingerprintOf(h4),
  placesOfKey: ({ level1, level2 }: IndexParameters) => level1 + level2,
  walksOnce: true,
  unlinksMany: true,
  vary: (index, prng) => Object.assign((index as ShardIndex).table.techniques, techniques(prng)),
  grow: (index) => resize((index as ShardIndex).table),
  hurry(index) {
    for (const table of (index as ShardIndex).partitions.tables) {
      table.patience = { polls: 1, microseconds: 1 };
    }
  },
  pending: (index) => pendingRecords(index as ShardIndex),
};

/** Clients of one table need not agree on any of these. */
function techniques(prng: Prng): Techniques {
  return {
    lazy: prng.below(4) > 0,
    combining: prng.below(4) > 0,
    synchronisation: prng.below(2) === 0 ? 'adaptive' : [1, 3, 20][prng.below(3)],
    delegation: prng.below(2) === 0,
    tidying: prng.below(3) > 0,
  };
}

/** Insertions that nobody commits or withdraws any more, until their keys are met. */
function* pendingRecords({ partitions }: ShardIndex): Operation<Address[]> {
  const found: Address[] = [];
  const visit = ({ words: { i32 }, at, entries }: VisitedBucket) => {
    for (let word = at >> 2; word < (at >> 2) + 2 * entries; word += 2) {
      const low = i32[word];
      const high = i32[word + 1];
      if (!isEmpty(low, high) && !isLive(low, high)) found.push(pointerOf(low, high));
    }
  };
  for (const table of partitions.tables) yield* eachBucket(table, visit);
  return found;
}
