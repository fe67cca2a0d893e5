import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Stepped } from '../../../store/tests/support/by-hand.ts';
import type { Fabric, Operation } from '../../../verbs/index.ts';
import { ALWAYS } from '../../contract.ts';
import {
  type Client,
  checked,
  clientOf,
  foundText,
  requestFor,
  scanned,
} from './support/client.ts';

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

test('records of a loaded leaf that stand side by side are read together, and nothing else is', (t) => {
  const client = clientOf(t, {});
  const { pool, index } = client;
  const list = keys(1000);
  pool.run(index.load(entriesOf(list)));
  assert.deepEqual(checked(client), { problems: [], records: 1000 });
  const limited = { lower: { key: Buffer.from(list[500]), inclusive: true }, limit: 100 };
  for (const [range, records, most] of [
    // 48 records a leaf; a chunk of blocks may end within one.
    [{}, 1000, 2 * Math.ceil(1000 / 48)],
    [{ reverse: true }, 1000, 2 * Math.ceil(1000 / 48)],
    [limited, 100, 60],
  ] as const) {
    const scan = index.scan(range);
    const read = new Set<number>();
    let [reads, visited] = [0, 0];
    while (!scan.done) {
      const step = scan.next(() => visited++);
      let trip = 0;
      for (let next = step.next(); !next.done; next = step.next(), trip++) {
        const { length, address, bytes } = next.value;
        pool.fabric.execute(next.value);
        for (let i = 0; trip > 0 && i < length; i++, reads++) {
          for (let at = 0; at < bytes[i]; at += 64) read.add(address[i] + at);
        }
      }
    }
    assert.equal(visited, records);
    // Each record takes a line; of those with a border's hint some are not in the range.
    assert.ok(read.size >= records && read.size <= records * 1.15, `${read.size} lines`);
    assert.ok(reads <= most, `${reads} READs for ${records} records`);
  }
});

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

test('a loader that stops for good keeps nobody from loading', (t) => {
  const list = keys(40);
  for (let steps = 0, taken = 0; ; steps++) {
    const stopped = clientOf(t, SHAPE);
    const other = clientOf(t, SHAPE, stopped.handle);
    const load = new Stepped(stopped.pool.fabric, stopped.index.load(entriesOf(list)));
    for (let i = 0; i < steps && !load.done; i++) load.step();
    try {
      assert.equal(other.pool.run(other.index.load(entriesOf(list))), 40);
      taken++;
    } catch (error) {
      // The other one's records are there already: it stopped behind the CAS that counts.
      assert.equal((error as { code: string }).code, 'SW_INVALID_ARGUMENT');
    }
    assert.deepEqual(checked(other), { problems: [], records: 40 }, `after ${steps} steps`);
    if (load.done) return assert.ok(taken > 5 && taken < steps);
  }
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
      const { pool, index, handle } = clientOf(t, SHAPE);
      const other = clientOf(t, SHAPE, handle);
      const failed = failAt(pool.fabric, index.load(entriesOf(list)), trip, isDone);
      const { problems, records } = checked(other);
      assert.deepEqual(problems, [], `verb ${trip}`);
      if (!failed) return assert.ok(stored > 0 && trip > 5);
      if (records > 0) stored++;
      // What was given back is used again.
      for (let i = 0; i < 60; i++) {
        pool.run(index.write(requestFor({ index } as Client, `more ${i}`, 'another'), ALWAYS));
      }
      assert.deepEqual(checked(other), { problems: [], records: records + 60 }, `verb ${trip}`);
      const found = scanned(other, other.index.scan()).map(([, value]) => value);
      const loaded = list.map((key) => `${key} value`);
      assert.deepEqual(found.slice(0, records), records > 0 ? loaded : []);
    }
  });
}

test('an insertion that stopped with a claim keeps nobody from loading', (t) => {
  const stopped = clientOf(t, SHAPE);
  const other = clientOf(t, SHAPE, stopped.handle);
  const insertion = stopped.index.write(requestFor(stopped, 'claimed', 'value'), ALWAYS);
  const steps = new Stepped(stopped.pool.fabric, insertion);
  while (steps.verbs > 1 || steps.steps === 0) steps.step();
  assert.equal(other.pool.run(other.index.load(entriesOf(keys(40)))), 40);
  assert.deepEqual(checked(other), { problems: [], records: 40 });
  steps.finish();
  assert.deepEqual(checked(other), { problems: [], records: 41 });
});

test('a record that is put while a load is under way is kept, and the load is not', (t) => {
  const list = keys(40);
  for (let steps = 0, lost = 0; ; steps++) {
    const loader = clientOf(t, SHAPE);
    const putter = clientOf(t, SHAPE, loader.handle);
    const load = new Stepped(loader.pool.fabric, loader.index.load(entriesOf(list)));
    for (let i = 0; i < steps && !load.done; i++) load.step();
    const all = load.done;
    putter.pool.run(putter.index.write(requestFor(putter, 'put', 'value'), ALWAYS));
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
    if (all) return assert.ok(lost > 5 && lost < steps);
  }
});
