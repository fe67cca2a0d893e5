import assert from 'node:assert/strict';
import { test } from 'node:test';
import { requestFor, Stepped, shardByHand } from '../../../../store/tests/support/by-hand.ts';
import { Batch, highHalf, Scratch } from '../../../../verbs/index.ts';
import { ALWAYS, INSERTED } from '../../../contract.ts';
import { FROZEN, stampOf } from '../../table/slot.ts';
import { bringTo } from '../catch-up.ts';
import { resize } from '../resize.ts';

const SHARD = { buckets: 1, level1: 2, level2: 8, resizes: 6 };
/** The version whose resize begins a new group of segment ids. */
const GROUP_END = 4;

test('a late mover renews segment ids of the resize that it finds, not of the one it came for', (t) => {
  const late = shardByHand(t, { shard: SHARD });
  const others = [1, 2].map(() => shardByHand(t, { shard: SHARD, handle: late.handle }));
  for (const { pool, index } of [late, ...others]) {
    pool.enter();
    t.after(() => pool.exit());
    index.table.syncEvery = Number.POSITIVE_INFINITY;
  }
  const [first, second] = others;
  const { segments, geometry } = first.index.table;
  // It is in bucket 0 up to version 3 and leaves it then; its next segment id is another one.
  let key = '';
  for (let i = 0; key === ''; i++) {
    const { h1 } = requestFor(first, `k${i}`).hash;
    if ((h1 & 0xf) === 8 && ((h1 >>> 4) & 0xf) !== 8) key = `k${i}`;
  }
  assert.equal(first.pool.run(first.index.write(requestFor(first, key, 'v'), ALWAYS)), INSERTED);
  for (let version = 1; version <= GROUP_END; version++) {
    assert.ok(first.pool.run(resize(first.index.table)));
    if (version <= GROUP_END - 2) first.pool.run(bringTo(first.index.table, 0, 0, version));
  }
  for (const { pool, index } of [late, second]) pool.run(index.table.segments.load());
  // Its Move has been used for a larger bucket.
  late.pool.run(bringTo(late.index.table, 1, 0, GROUP_END));
  // It has read the bucket two versions behind, and is about to freeze it.
  const moving = new Stepped(late.pool.fabric, bringTo(late.index.table, 0, 0, GROUP_END));
  while (moving.verbs < SHARD.level1) moving.step();
  // Another one moves it by one version, freezes it for the next, and dies.
  const words = new Scratch(8);
  const isFrozen = () => {
    const address = segments.bucketAddress(0, 0);
    second.pool.fabric.execute(
      new Batch().read(address + geometry.bucketBytes[0] - 8, 8, words, 0),
    );
    const high = highHalf(words, 0);
    return (high & FROZEN) !== 0 && stampOf(high) === GROUP_END;
  };
  const dying = new Stepped(second.pool.fabric, bringTo(second.index.table, 0, 0, GROUP_END));
  while (!isFrozen()) dying.step();
  moving.finish();
  assert.ok(first.pool.run(first.index.search(requestFor(first, key))), 'the key is lost');
  const problems: string[] = [];
  const problem = (text: string) => problems.push(text);
  first.pool.run(first.index.check({ problem, reachable: () => {}, progress: () => {} }));
  assert.deepEqual(problems, []);
});
