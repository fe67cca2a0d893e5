import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ExpectedValues } from '../expected-values.ts';
import { expected, NEVER_WRITTEN } from '../expected-word.ts';
import type { OracleShape } from '../oracle-shape.ts';
import { identify, makeValue } from '../values.ts';

const SHAPE: OracleShape = { rows: 2, keys: 3, counters: 1, tokens: 1 };

function newOracle(): ExpectedValues {
  return new ExpectedValues(new SharedArrayBuffer(ExpectedValues.bytes(SHAPE)), SHAPE).format();
}

describe('expected value words', () => {
  it('a write raises the base and a deletion the delete counter', () => {
    let word = expected.commitWrite(expected.beginWrite(NEVER_WRITTEN));
    assert.deepEqual(
      [expected.base(word), expected.deletes(word), expected.isDeleted(word)],
      [1, 0, false],
    );
    word = expected.commitDelete(expected.beginDelete(word));
    assert.deepEqual(
      [expected.base(word), expected.deletes(word), expected.isDeleted(word)],
      [1, 1, true],
    );
  });

  it('base and delete counter wrap without touching other bits', () => {
    let word = NEVER_WRITTEN;
    for (let i = 0; i < 2 ** 15 + 1; i++) word = expected.commitWrite(expected.beginWrite(word));
    assert.deepEqual([expected.base(word), expected.deletes(word)], [1, 0]);
    for (let i = 0; i < 2 ** 14 + 1; i++) word = expected.commitDelete(expected.beginDelete(word));
    assert.deepEqual([expected.base(word), expected.deletes(word)], [1, 1]);
    assert.ok(expected.isDeleted(word) && !expected.isWritePending(word));
  });

  it('accepts anything between two samples, and nothing else', () => {
    const present = expected.commitWrite(NEVER_WRITTEN);
    const deleting = expected.beginDelete(present);
    const writing = expected.beginWrite(present);
    assert.ok(expected.mustExist(present, present));
    assert.ok(expected.mustExist(present, writing), 'an overwritten key never is absent');
    assert.ok(!expected.mustExist(present, deleting));
    assert.ok(!expected.mustExist(deleting, expected.commitDelete(deleting)));
    assert.ok(expected.mustNotExist(NEVER_WRITTEN, NEVER_WRITTEN));
    assert.ok(!expected.mustNotExist(NEVER_WRITTEN, expected.beginWrite(NEVER_WRITTEN)));
    const again = expected.commitDelete(expected.commitWrite(NEVER_WRITTEN));
    assert.ok(!expected.mustNotExist(NEVER_WRITTEN, again), 'it existed in between');
    assert.ok(
      expected.mayHaveBase(1, present, writing) && expected.mayHaveBase(2, present, writing),
    );
    assert.ok(
      !expected.mayHaveBase(3, present, writing) && !expected.mayHaveBase(0, present, writing),
    );
  });

  it('a range of bases may wrap', () => {
    const [before, after] = [0x7ffe, 1];
    for (const base of [0x7ffe, 0x7fff, 0, 1]) {
      assert.ok(expected.mayHaveBase(base, before, after));
    }
    assert.ok(!expected.mayHaveBase(2, before, after));
    assert.ok(!expected.mayHaveBase(0x7ffd, before, after));
  });

  it('a key has one owner', () => {
    const oracle = newOracle();
    assert.ok(oracle.tryLock(1, 0));
    assert.ok(!oracle.tryLock(1, 1));
    assert.equal(oracle.owner(1), 0);
    oracle.unlock(1);
    assert.ok(oracle.tryLock(1, 1));
  });

  it('what was under way in a dead worker widens the bounds of a sum', () => {
    const oracle = newOracle();
    oracle.sums.begin(0, 0, 5);
    oracle.sums.end(0, 0, true);
    oracle.sums.begin(1, 0, 3);
    oracle.sums.end(1, 0, false);
    assert.deepEqual(oracle.sums.bounds(0), { low: 5, high: 5 });
    oracle.sums.begin(0, 0, 7);
    oracle.sums.begin(1, 1, -1);
    oracle.sums.abandon(0);
    oracle.sums.abandon(1);
    assert.deepEqual(oracle.sums.bounds(0), { low: 5, high: 12 });
    assert.deepEqual(oracle.sums.bounds(1), { low: -1, high: 0 });
  });

  it('a value tells who wrote it, and any damage', () => {
    for (let attempt = 1; attempt < 300; attempt++) {
      const identity = { key: 7, attempt, tag: 3 };
      const value = makeValue(identity);
      assert.deepEqual(identify(value), identity);
      if (typeof value === 'string') continue;
      const damaged = value.slice();
      damaged[value.length - 1] ^= 1;
      assert.notDeepEqual(identify(damaged), identity);
    }
  });
});
