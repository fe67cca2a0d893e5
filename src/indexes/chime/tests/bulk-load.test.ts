import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Stepped, stopAfter } from '../../../store/tests/support/by-hand.ts';
import type { Fabric, Operation } from '../../../verbs/index.ts';
import { ALWAYS } from '../../contract.ts';
import { areGoneFor, checked, clientOf, foundText, requestFor, scanned } from './support/client.ts';

const SHAPE = { span: 8, neighbourhood: 4, fanout: 4 };
const keys = (count: number) =>
  Array.from({ length: count }, (_, i) => `key ${String(i).padStart(6, '0')}`);
const entriesOf = (list: readonly string[]) =>
  list.map((key) => [Buffer.from(key), Buffer.from(`${key} value`)] as const);

for (const count of [0, 1, 6, 7, 2000]) {
  test(`${count} records in order make a whole tree`, (t) => {
    const client = clientOf(t, SHAPE);
    const { pool, index } = client;
    const list = keys(count);
    assert.equal(pool.run(index.load(entriesOf(list))), count);
    const other = clientOf(t, SHAPE, client.handle);
    assert.deepEqual(checked(other), { problems: [], records: count });
    assert.deepEqual(
      scanned(other, other.index.scan()).map(([, value]) => value),
      list.map((key) => `${key} value`),
    );
    for (const key of list) {
      pool.run(index.write(requestFor(client, `${key} more`, 'another'), ALWAYS));
      const request = requestFor(client, key);
      assert.ok(pool.run(index.search(request)));
      assert.equal(foundText(request), `${key} value`);
    }
    assert.deepEqual(checked(other), { problems: [], records: 2 * count });
  });
}

test('what does not ascend stores nothing', (t) => {
  const client = clientOf(t, SHAPE);
  const { pool, index } = client;
  const list = [...keys(100), 'key 000050'];
  assert.throws(() => pool.run(index.load(entriesOf(list))), { code: 'SW_INVALID_ARGUMENT' });
  assert.deepEqual(checked(client), { problems: [], records: 0 });
  assert.equal(pool.run(index.load(entriesOf(keys(100)))), 100);
  assert.throws(() => pool.run(index.load(entriesOf(['z']))), { code: 'SW_INVALID_ARGUMENT' });
  assert.deepEqual(checked(client), { problems: [], records: 100 });
});

/** Runs an operation of which one round trip raises, done or not; whether it got that far. */
function failAt(fabric: Fabric, operation: Operation<unknown>, trip: number, isDone: boolean) {
  let step = operation.next();
  for (let trips = 0; !step.done; trips++) {
    if (trips !== trip || isDone) fabric.execute(step.value);
    try {
      step = trips === trip ? operation.throw(new Error('a verb failed')) : operation.next();
    } catch {
      return true;
    }
    if (step.done && trips >= trip) return true;
  }
  return false;
}

for (const isDone of [false, true]) {
  const what = isDone ? 'done all the same' : 'not done';
  test(`a load of which a verb fails, ${what}, frees nothing that is in use`, (t) => {
    const list = keys(40);
    for (let trip = 0, stored = 0; ; trip++) {
      const loader = clientOf(t, SHAPE);
      const { pool, index } = loader;
      const other = clientOf(t, SHAPE, loader.handle);
      const failed = failAt(pool.fabric, index.load(entriesOf(list)), trip, isDone);
      // Verbs fail where a session ends.
      areGoneFor(other, loader);
      const { problems, records } = checked(other);
      assert.deepEqual(problems, [], `verb ${trip}`);
      if (!failed) return assert.ok(stored > 0 && trip > 5);
      if (records > 0) stored++;
      // What was given back is used again.
      for (let i = 0; i < 60; i++) {
        other.pool.run(other.index.write(requestFor(other, `more ${i}`, 'another'), ALWAYS));
      }
      assert.deepEqual(checked(other), { problems: [], records: records + 60 }, `verb ${trip}`);
      const found = scanned(other, other.index.scan()).map(([, value]) => value);
      const loaded = list.map((key) => `${key} value`);
      assert.deepEqual(found.slice(0, records), records > 0 ? loaded : []);
    }
  });
}

test('a record that is put while a load is under way is kept, and the load is not', (t) => {
  const list = keys(40);
  let waited = 0;
  for (let steps = 0, lost = 0; ; steps++) {
    const loader = clientOf(t, SHAPE);
    const putter = clientOf(t, SHAPE, loader.handle);
    const load = new Stepped(loader.pool.fabric, loader.index.load(entriesOf(list)));
    for (let i = 0; i < steps && !load.done; i++) load.step();
    const all = load.done;
    putter.index.tree.patience = { spins: 0, polls: 1, microseconds: 1 };
    try {
      putter.pool.run(putter.index.write(requestFor(putter, 'put', 'value'), ALWAYS));
    } catch (error) {
      // The loader stands still under its lock.
      assert.equal((error as { code: string }).code, 'SW_CONTENTION');
      waited++;
      load.finish();
      continue;
    }
    let loaded = true;
    try {
      load.finish();
    } catch (error) {
      assert.equal((error as { code: string }).code, 'SW_INVALID_ARGUMENT');
      loaded = false;
      lost++;
    }
    const records = loaded ? 41 : 1;
    assert.deepEqual(checked(putter), { problems: [], records }, `after ${steps} steps`);
    assert.ok(putter.pool.run(putter.index.search(requestFor(putter, 'put'))));
    if (all) return assert.ok(lost > 5 && lost < steps && waited === 1);
  }
});

test('a loader may die after any verb: all is loaded, or nothing', (t) => {
  const list = keys(30);
  const seen = new Set<number>();
  for (let verbs = 0; ; verbs++) {
    const loader = clientOf(t, SHAPE);
    const other = clientOf(t, SHAPE, loader.handle);
    const done = stopAfter(loader, loader.index.load(entriesOf(list)), verbs);
    areGoneFor(other, loader);
    const found = scanned(other, other.index.scan()).length;
    seen.add(found);
    try {
      if (found === 0) assert.equal(other.pool.run(other.index.load(entriesOf(list))), 30);
    } catch (error) {
      // The intent was whole: this client, which met the lock, has done what it says.
      assert.equal((error as { code: string }).code, 'SW_INVALID_ARGUMENT');
    }
    assert.deepEqual(checked(other), { problems: [], records: 30 }, `after ${verbs} verbs`);
    if (done < verbs) break;
  }
  assert.deepEqual([...seen], [0, 30]);
});
