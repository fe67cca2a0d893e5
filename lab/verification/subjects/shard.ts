import { hasCode } from '../../../src/errors.ts';
import type { IndexParameters } from '../../../src/indexes/contract.ts';
import { eachBucket, type VisitedBucket } from '../../../src/indexes/shard/each-bucket.ts';
import { SHARD_TECHNIQUES, type ShardShape } from '../../../src/indexes/shard/parameters.ts';
import { partitionOf } from '../../../src/indexes/shard/partitions/placement.ts';
import { resize } from '../../../src/indexes/shard/resizing/resize.ts';
import { SHARD, type ShardIndex } from '../../../src/indexes/shard/shard.ts';
import { ShardGeometry } from '../../../src/indexes/shard/table/geometry.ts';
import {
  fingerprintOf,
  isEmpty,
  isLive,
  pointerOf,
} from '../../../src/indexes/shard/table/slot.ts';
import { without } from '../../../src/indexes/substrates/parameters.ts';
import type { Prng } from '../../../src/random/prng.ts';
import type { Address, Operation } from '../../../src/verbs/index.ts';
import { giveUpSoon, picker, type Subject } from './subject.ts';

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
    ...without(SHARD_TECHNIQUES, ...(prng.below(6) === 0 ? (['ordered'] as const) : [])),
    seed: prng.next32(),
    partitions: prng.below(4) === 0 ? 2 : 1,
  }),
  torture(prng) {
    const pick = picker(prng);
    return {
      buckets: pick(1, 1, 2, 4),
      level1: pick(2, 4, 8, 16),
      level2: pick(1, 2, 4),
      threshold: pick(40, 80, 80, 100),
      alpha: pick(10, 1000, 10_000),
      ...without(SHARD_TECHNIQUES, ...pick<'ordered'[]>([], [], [], ['ordered'])),
    };
  },
  // With several partitions there is somewhere to move them.
  nodes: ({ partitions }) => (partitions > 1 ? 2 : 1),
  // Keys that fill levels 1 and 2 make it resize: every bucket then waits for its first visitor.
  smallest: {
    buckets: 1,
    level1: 2,
    level2: 1,
    threshold: 100,
    alpha: 1,
    resizes: 2,
    without: 0,
    partitions: 1,
    seed: 7,
  },
  place({ h1, h2, h3, h4 }, parameters) {
    const geometry = new ShardGeometry(parameters as ShardShape);
    const start = geometry.startSlot(h3);
    const buckets = [h1, h2, h3, h4].map((hash) => geometry.bucketOf(hash, 0));
    const partition = partitionOf({ h1, h2 }, parameters.partitions);
    return `${partition}/${buckets.join('/')}/${start}`;
  },
  fingerprint: ({ h4 }) => fingerprintOf(h4),
  placesOfKey: ({ level1, level2 }: IndexParameters) => level1 + level2,
  walksOnce: true,
  unlinksMany: true,
  // A mover that has taken a new bucket fills it whenever it goes on (new-bucket.ts): also after
  // another client has relocated the bucket, and a migration has retired its segment.
  overwrites: (_, nodes = 1) => nodes > 1,
  migrates: true,
  vary(index, prng) {
    const shard = index as ShardIndex;
    varyTechniques(shard, prng);
    if (shard.partitions.tables.length > 1) migrateNowAndThen(shard, prng);
    // While another client fills a new bucket, some clients wait long and others hardly at all.
    for (const table of shard.partitions.tables) {
      table.patience = { polls: [1, 2, 40][prng.below(3)], microseconds: 1 };
    }
  },
  grow: (index) => resize((index as ShardIndex).table),
  hurry(index) {
    for (const table of (index as ShardIndex).partitions.tables) {
      table.patience = { polls: 1, microseconds: 1 };
    }
  },
  hasten(index, attempts) {
    for (const table of (index as ShardIndex).partitions.tables) giveUpSoon(table, attempts);
  },
  pending: (index) => pendingRecords(index as ShardIndex),
};

/** Clients of one table need not agree on any of these. */
function varyTechniques(index: ShardIndex, prng: Prng): void {
  const { techniques } = index.table;
  techniques.lazy = prng.below(4) > 0;
  techniques.combining = prng.below(4) > 0;
  techniques.adaptive = prng.below(2) === 0;
  if (!techniques.adaptive) {
    const syncEvery = [1, 3, 20][prng.below(3)];
    for (const table of index.partitions.tables) table.syncEvery = syncEvery;
  }
  index.configure({ delegation: prng.below(2) === 0 });
  techniques.clearing = prng.below(3) > 0;
}

/** Behind some writes: another set of memory nodes, and a part of a migration or two. */
function migrateNowAndThen(index: ShardIndex, prng: Prng): void {
  const write = index.write.bind(index);
  const often = 1 + prng.below(4);
  index.write = function* (...words) {
    const outcome = yield* write(...words);
    if (prng.below(5) < often) yield* migrateSomewhat(index, prng);
    return outcome;
  };
}

const NODE_SETS = [[0], [1], [0, 1]];

function* migrateSomewhat({ placement }: ShardIndex, prng: Prng): Operation<void> {
  if (prng.below(2) === 0) {
    yield* placement.changeNodes(() => NODE_SETS[prng.below(NODE_SETS.length)]);
  }
  const migrations = placement.rebalancing();
  const migration = migrations[prng.below(migrations.length)];
  try {
    for (let parts = 1 + prng.below(6); parts > 0 && !migration.done; parts--) {
      yield* migration.next();
    }
  } catch (error) {
    // The node is full; the write is done all the same.
    if (!hasCode(error, 'SW_POOL_FULL')) throw error;
  }
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
