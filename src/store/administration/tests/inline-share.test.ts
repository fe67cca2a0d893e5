/** Statistics say how many records stand in the index itself. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspectSync, openSync } from '../../open.ts';
import { numbered, SMALL } from '../../tests/support/pools.ts';

const [SHORT, LONG] = [numbered('short ', 90), numbered('long ', 30)];

for (const index of ['chime', 'hopscotch'] as const) {
  test(`${index}: records that outgrow the index and those that do not`, (t) => {
    const store = openSync('memory:', { ...SMALL, index });
    t.after(() => store.close());
    for (const key of SHORT) store.set(key, 'value');
    for (const key of LONG) store.set(key, 'value'.repeat(20));
    const told = () => {
      const { records, inline, indirect } = store.stats();
      const [of] = inspectSync(store.handle).stores;
      assert.deepEqual([of.records, of.inline, of.indirect], [records, inline, indirect]);
      return [records, inline, indirect];
    };
    assert.deepEqual(told(), [120, 90, 30]);
    store.set(LONG[0], 'short now');
    store.set(SHORT[0], 'long now'.repeat(20));
    store.set(SHORT[1], 'long now'.repeat(20));
    assert.deepEqual(told(), [120, 89, 31]);
  });
}

test('an index that has only pointers does not tell', (t) => {
  const store = openSync('memory:', SMALL);
  t.after(() => store.close());
  assert.equal(store.stats().inline, undefined);
});
