import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { sharedMemoryDirectory } from '../../../../store/places/pool-place.ts';
import { judge, LITMUS_TESTS, selftest } from '../selftest.ts';

const EFFORT = { rounds: 30_000, attempts: 2 };

describe('what the verbs promise on this machine', { timeout: 180_000 }, () => {
  for (const folder of [undefined, sharedMemoryDirectory()]) {
    it(`${folder === undefined ? 'a SharedArrayBuffer' : 'mapped memory'} keeps it`, async (t) => {
      for await (const result of selftest({ folder, ...EFFORT })) {
        t.diagnostic(JSON.stringify(result));
        // Without a second processor the threads may hardly meet: then nothing is proven.
        assert.notEqual(result.verdict, 'violated', result.test);
      }
    });
  }

  it('what is forbidden is a violation, and nothing is proven without the control', () => {
    assert.equal(judge('', 1, 1000).verdict, 'violated');
    assert.equal(judge('', 1, 0).verdict, 'violated');
    assert.equal(judge('', 0, 1).verdict, 'inconclusive');
    assert.equal(judge('', 0, 1000).verdict, 'held');
  });

  it('forbidden outcomes are told from allowed ones', () => {
    const count = (kind: string, X: number[], Y: number[]) => {
      const found = { X: Int32Array.from(X), Y: Int32Array.from(Y) };
      const test = LITMUS_TESTS.find(({ name }) => name.startsWith(kind));
      return test?.forbidden(found, found);
    };
    assert.equal(count('message passing', [0, 1, 2], [0, 1, 2]), 0);
    assert.equal(count('message passing', [0, 1, 1], [0, 1, 2]), 1);
    // Round 1 of both: each has missed the other one.
    assert.equal(count('store buffer', [0, 0, 1], [0, 0, 2]), 1);
    assert.equal(count('store buffer', [0, 1, 2], [0, 0, 2]), 0);
    assert.equal(count('load buffer', [0, 1, 1], [0, 1, 1]), 1);
    assert.equal(count('load buffer', [0, 0, 1], [0, 1, 1]), 0);
  });
});
