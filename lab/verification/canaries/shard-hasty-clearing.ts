import type { Condition, Outcome } from '../../../src/indexes/contract.ts';
import { eachBucket } from '../../../src/indexes/shard/each-bucket.ts';
import { SHARD, ShardIndex } from '../../../src/indexes/shard/shard.ts';
import type { ShardRequest } from '../../../src/indexes/shard/table/request.ts';
import {
  isEmpty,
  OVERFLOW,
  OVERFLOW_MASK,
  pointerOf,
  STAMP_MASK,
  stampFor,
} from '../../../src/indexes/shard/table/slot.ts';
import type { ShardTable } from '../../../src/indexes/shard/table/table.ts';
import { lengthOf } from '../../../src/indexes/substrates/claims/slot-format.ts';
import { KeyHashes } from '../../../src/indexes/substrates/key-hashes.ts';
import { Batch, type Operation, Scratch, setWord } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

export const shardHastyClearingCanary: Canary = {
  name: 'SHARD overflow bits are cleared by who has not told so before it looked below',
  caughtBy: 'linearizability',
  scenario: { crashes: false, swarm: { crowded: true } },
  kind: SHARD,
  index: ({ partitions }: ShardIndex) => new HastyClearing(partitions),
};

class HastyClearing extends ShardIndex {
  override *write(request: ShardRequest, condition: Condition, expected = 0): Operation<Outcome> {
    const outcome = yield* super.write(request, condition, expected);
    yield* clearHastily(this.table);
    return outcome;
  }
}

/** A key that was put below after the look at its place is not found any more. */
function* clearHastily(table: ShardTable): Operation<void> {
  const { geometry, segments } = table;
  const { version } = segments;
  const used = yield* bucketsUsedBelow(table);
  for (let bucket = 0; bucket < geometry.bucketsAt(version); bucket++) {
    const address = segments.bucketAddress(0, bucket);
    const swap = new Scratch(24);
    yield new Batch().read(address, 8, swap, 0);
    const [low, high] = [swap.i32[0], swap.i32[1]];
    const isOver = (high & OVERFLOW_MASK) === OVERFLOW;
    if (used.has(bucket) || !isOver || (high & STAMP_MASK) !== stampFor(version)) continue;
    setWord(swap, 8, low, high & ~OVERFLOW);
    yield new Batch().cas(address, swap, 0);
  }
}

function* bucketsUsedBelow(table: ShardTable): Operation<Set<number>> {
  const { geometry, segments } = table;
  const hashes = new KeyHashes();
  const records: { address: number; units: number }[] = [];
  const visit = (words: Scratch, at: number, entries: number) => {
    for (let word = at >> 2; word < (at >> 2) + 2 * entries; word += 2) {
      const [low, high] = [words.i32[word], words.i32[word + 1]];
      if (isEmpty(low, high)) continue;
      records.push({ address: pointerOf(low, high), units: lengthOf(high) });
    }
  };
  yield* eachBucket(table, ({ words, at, entries }) => visit(words, at, entries), 1);
  hashes.ensure(records.length);
  for (const { address, units } of records) hashes.add(address, units);
  const used = new Set<number>();
  yield* hashes.read(geometry.shape.seed, (_, { h1 }) => {
    used.add(geometry.bucketOf(h1, segments.version));
  });
  return used;
}
