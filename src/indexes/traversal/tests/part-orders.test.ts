import assert from 'node:assert/strict';
import { test } from 'node:test';
import { throwsCode } from '../../../store/tests/support/codes.ts';
import { cursorOf, SuffixOrder } from '../part-orders.ts';

const GROUPS = { end: 6, step: 3 };

test('a cursor is its position', () => {
  for (const depth of [0, 1, 7, 24]) {
    for (const suffix of new Set([0, 1, 2 ** depth - 1].filter((each) => each < 2 ** depth))) {
      for (const at of [0, 3, 3 * 65_535]) {
        const cursor = cursorOf({ suffix, depth, at });
        assert.ok(Number.isSafeInteger(cursor) && cursor > 0);
        const order = new SuffixOrder({ end: 3 * 65_536, step: 3 }, cursor);
        assert.deepEqual(order.position, { suffix, depth, at });
        assert.equal(order.cursor, cursor);
      }
    }
  }
  assert.deepEqual(new SuffixOrder(GROUPS).position, { suffix: 0, depth: 0, at: 0 });
  const order = new SuffixOrder({ end: 1, step: 1 });
  order.arrive(0, 1);
  order.pass();
  assert.deepEqual([order.done, order.cursor], [true, 0]);
});

test('what is no cursor of the index is none', () => {
  const beyond = cursorOf({ suffix: 0, depth: 0, at: 6 });
  const within = cursorOf({ suffix: 0, depth: 0, at: 2 });
  const deep = cursorOf({ suffix: 0, depth: 25, at: 0 });
  const wide = cursorOf({ suffix: 2, depth: 1, at: 0 });
  for (const cursor of [-1, 1.5, Number.NaN, 2 ** 60, 2, 3, beyond, within, deep, wide]) {
    throwsCode('SW_INVALID_ARGUMENT', () => new SuffixOrder(GROUPS, cursor));
  }
});

test('what is split while the traversal is in it is gone through half by half', () => {
  const order = new SuffixOrder(GROUPS);
  const visited: string[] = [];
  /** Goes on where the part has this depth by now. */
  const step = (depth: number) => {
    order.arrive(depth, order.position.at + GROUPS.step);
    const { suffix, at } = order.position;
    visited.push(`${suffix.toString(2).padStart(order.position.depth, '0')}@${at}`);
    order.pass();
  };
  step(1);
  // Suffix 0 is split twice, its upper half once more.
  step(3);
  step(3);
  step(3);
  step(3);
  step(1);
  step(1);
  assert.deepEqual(visited, ['0@0', '000@3', '100@3', '010@3', '110@3', '1@0', '1@3']);
  assert.ok(order.done);
});
