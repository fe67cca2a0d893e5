import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Batch, Scratch, setWord } from '../../../verbs/index.ts';
import { ALWAYS, type KeyRange } from '../../contract.ts';
import { isVacantAt } from '../hopscotch.ts';
import { LeafWalk } from '../leaf-walk.ts';
import { distanceOf, isLive, withDistance, withHint } from '../slot.ts';
import { type Client, clientOf, requestFor, scanned } from './support/client.ts';

/**
 * A leaf's picture may have a key twice, when it was removed and came back while the leaf was being
 * read; so that many do, their entries are put there twice by hand. Then what a limited scan reads
 * first is not enough, and it goes on with the rest of the same pictures.
 */
const SHAPE = { span: 8, neighbourhood: 4, fanout: 4 };
const KEYS = Array.from({ length: 120 }, (_, i) => `user:${1000 + 7 * i}`);

function* writing(batch: Batch) {
  yield batch;
}

/** Copies entries into empty slots of their neighbourhoods; every second copy has no hint. */
function repeatEntries({ pool, index: { tree } }: Client): number {
  tree.cache.begin();
  let copies = 0;
  const leaves = new LeafWalk(tree, new Uint8Array(0));
  while (leaves.position !== undefined) {
    const { address, slots } = pool.run(leaves.next());
    for (let slot = 0; slot < SHAPE.span; slot++) {
      const [low, high] = slots.subarray(2 * slot, 2 * slot + 2);
      const next = (slot + 1) % SHAPE.span;
      const distance = distanceOf(high) + 1;
      const fits = distance < SHAPE.neighbourhood && isVacantAt(slots, next);
      if (!isLive(low, high) || !fits) continue;
      const word = new Scratch(8);
      const moved = withDistance(high, distance);
      setWord(word, 0, low, copies++ % 2 === 0 ? moved : withHint(moved, 0));
      pool.run(writing(new Batch().write(tree.geometry.slotAddress(address, next), 8, word, 0)));
      // The copy is no original.
      slot++;
    }
  }
  return copies;
}

test('a scan with a limit hands out enough keys, also when it meets some twice', (t) => {
  const client = clientOf(t, SHAPE);
  KEYS.forEach((_, i) => {
    const key = KEYS[(i * 77) % KEYS.length];
    client.pool.run(client.index.write(requestFor(client, key, key), ALWAYS));
  });
  assert.ok(repeatEntries(client) > 20);
  const values = (range: KeyRange) => scanned(client, client.index.scan(range)).map(([, v]) => v);
  for (let first = 0; first < KEYS.length; first += 3) {
    const bound = { key: Buffer.from(KEYS[first]), inclusive: true };
    for (const limit of [1, 2, 5, 9, 30]) {
      const ahead = KEYS.slice(first, first + limit);
      assert.deepEqual(values({ lower: bound, limit }), ahead);
      const back = KEYS.slice(0, first + 1).toReversed();
      assert.deepEqual(values({ upper: bound, limit, reverse: true }), back.slice(0, limit));
    }
  }
});
