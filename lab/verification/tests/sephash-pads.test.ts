import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALWAYS } from '../../../src/indexes/contract.ts';
import type { SepHashIndex } from '../../../src/indexes/sephash/sephash.ts';
import {
  type ByHand,
  requestFor,
  sepHashByHand,
} from '../../../src/store/tests/support/by-hand.ts';
import { type Batch, CAS, type Operation } from '../../../src/verbs/index.ts';
import { sepHashNamelessPadCanary as canary } from '../canaries/sephash-nameless-pad.ts';
import { planted } from '../canary.ts';

/** Two entries, and no splits. */
const SEPHASH = { segmentBytes: 16, ratio: 64, initialDepth: 0, maxDepth: 2 };

function put({ index, ...client }: ByHand<SepHashIndex>, key: string): Operation<unknown> {
  return index.write(requestFor({ index, ...client }, key, 'v'), ALWAYS);
}

function* atOnce(): Operation<boolean> {
  yield* [];
  return true;
}

for (const named of [true, false]) {
  const name = named ? 'a pad that names its epoch keeps' : `the canary loses: ${canary.name}`;
  test(`${name} (an append as late as two compactions)`, (t) => {
    const late = sepHashByHand(t, { sephash: SEPHASH });
    const other = sepHashByHand(t, { sephash: SEPHASH, handle: late.handle });
    const index = named ? other.index : (planted(other.index, other.pool, canary) as SepHashIndex);
    const compact = () => other.pool.run(index.compact(atOnce, true));
    other.pool.run(put(other, 'first'));
    // Epoch 1 ends with a pad in the second entry.
    compact();
    late.pool.run(put(late, 'second'));
    const appending = put(late, 'third');
    let batch = appending.next().value as Batch;
    // It has read the pad as empty in epoch 2 and is about to replace it.
    while (batch.kind[batch.length - 1] !== CAS) {
      late.pool.fabric.execute(batch);
      batch = appending.next().value as Batch;
    }
    compact();
    // Epoch 3 has the sign of epoch 1, and ends with a pad in the second entry too.
    other.pool.run(put(other, 'fourth'));
    compact();
    late.pool.fabric.execute(batch);
    for (let step = appending.next(); !step.done; step = appending.next()) {
      late.pool.fabric.execute(step.value);
    }
    const found = other.pool.run(other.index.search(requestFor(other, 'third')));
    assert.equal(found, named);
  });
}
