/** A check over a network looks at many records at a time, and says what it says one by one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openIndex } from '../../../indexes/kinds.ts';
import type { Batch, Operation } from '../../../verbs/index.ts';
import { checkStores } from '../../administration/check.ts';
import type { IndexName } from '../../api.ts';
import { attach, check, open, openSync } from '../../open.ts';
import { freshUrl, keepOpen, numbered, SMALL } from '../../tests/support/pools.ts';
import { startNodes } from '../../tests/support/remote.ts';

const KEYS = numbered('key ', 300);

/** Runs the operations of all items a doorbell each in turn; counts those turns. */
class Together {
  turns = 0;

  *each<T>(items: readonly T[], act: (item: T) => Operation<void>): Operation<void> {
    let left = items.map((item) => act(item));
    for (; left.length > 0; this.turns++) {
      const going: Operation<void>[] = [];
      for (const operation of left) {
        const step: IteratorResult<Batch, void> = operation.next();
        if (step.done) continue;
        yield step.value;
        going.push(operation);
      }
      left = going;
    }
  }
}

for (const index of ['race', 'shard', 'sephash', 'hstore'] as const satisfies IndexName[]) {
  test(`${index}: the records of a check are in flight together`, (t) => {
    const url = freshUrl(t, 'file');
    const store = keepOpen(t, openSync(url, { ...SMALL, index }));
    for (const key of KEYS) store.set(key, `of ${key}`);
    const { pool } = attach(url, { create: false }).client;
    const together = new Together();
    const each: Together['each'] = (items, act) => together.each(items, act);
    const report = (options: { each?: Together['each'] }) =>
      pool.run(checkStores(pool, url, (entry) => openIndex(pool, entry), options));
    assert.deepEqual(report({ each }), report({}));
    // A few turns, however many records there are.
    assert.ok(together.turns > 0 && together.turns < KEYS.length / 10, `${together.turns} turns`);
  });
}

test('shard: a check of a store on three memory nodes', async (t) => {
  const { url } = await startNodes(t, 3);
  const store = await open(url, { index: 'shard', maxClients: 8 });
  await store.setMany(KEYS.map((key) => [key, `of ${key}`]));
  await store.close();
  const { problems, stores, unreachable } = await check(url);
  assert.deepEqual(problems, []);
  assert.equal(stores[0].records, KEYS.length);
  assert.equal(unreachable, 0);
});
