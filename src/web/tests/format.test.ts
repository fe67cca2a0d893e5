import assert from 'node:assert/strict';
import { test } from 'node:test';
import { records } from '../page/format.ts';

test('the page counts one record, and several records', () => {
  assert.deepEqual([0, 1, 2, 1500].map(records), [
    '0 records',
    '1 record',
    '2 records',
    '1,500 records',
  ]);
});
