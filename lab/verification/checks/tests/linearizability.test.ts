import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkHistory, ILLEGAL } from '../linearizability.ts';

/** A register: operations are writes of `value` or reads that returned it. */
function register(kind: 'write' | 'read', value: number, invoked: number, responded: number) {
  const apply = (state: number) => {
    if (kind === 'write') return value;
    return state === value ? state : ILLEGAL;
  };
  return { invoked, responded, apply } as const;
}

const check = (operations: ReturnType<typeof register>[]) => checkHistory(operations, 0, String);

test('overlapping operations may take effect in any order', () => {
  const history = [register('write', 1, 0, 10), register('write', 2, 1, 9)];
  assert.ok(check([...history, register('read', 1, 11, 12)]).linearizable);
  assert.ok(check([...history, register('read', 2, 11, 12)]).linearizable);
  assert.ok(!check([...history, register('read', 0, 11, 12)]).linearizable);
});

test('a read must not go back in time', () => {
  const write = register('write', 1, 0, 10);
  const early = register('read', 1, 1, 2);
  assert.ok(!check([write, early, register('read', 0, 3, 4)]).linearizable);
  assert.ok(check([write, register('read', 0, 1, 2), register('read', 1, 3, 4)]).linearizable);
});

test('an operation that never returned may have happened, late, or not at all', () => {
  const pending = register('write', 1, 0, Number.POSITIVE_INFINITY);
  assert.ok(check([pending, register('read', 0, 5, 6)]).linearizable);
  assert.ok(check([pending, register('read', 0, 5, 6), register('read', 1, 7, 8)]).linearizable);
  assert.ok(!check([pending, register('read', 1, 5, 6), register('read', 0, 7, 8)]).linearizable);
});

test('the verdict carries the order that explains the history', () => {
  const verdict = check([register('read', 1, 3, 4), register('write', 1, 0, 9)]);
  assert.deepEqual(verdict, { linearizable: true, order: [1, 0], state: 1 });
});
