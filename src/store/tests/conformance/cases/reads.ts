import assert from 'node:assert/strict';
import { numbered, patternBytes } from '../../support/pools.ts';
import type { Suite } from './suite.ts';

export function readCases({ check, local }: Suite): void {
  check('read hands out the bytes and returns the result', async ({ s }) => {
    await s.set('k', 'größe');
    assert.equal(await s.read('k', (bytes) => Buffer.from(bytes).toString()), 'größe');
    assert.equal(await s.read('k', (bytes) => bytes.length), 7);
    assert.equal(await s.read('k', () => undefined), undefined);
    await s.set('empty', '');
    assert.equal(await s.read('empty', (bytes) => bytes.length), 0);
  });

  check('read of an absent key does not call', async ({ s }) => {
    const outcome = await s.read('k', () => assert.fail('called'));
    assert.equal(outcome, undefined);
  });

  check('read of a short value copies nothing', async ({ s }) => {
    await s.set('k', patternBytes(100));
    await s.read('k', (bytes) => {
      assert.equal(bytes.length, 100);
      const isWindow = bytes.buffer.byteLength >= 2 ** 20;
      assert.equal(isWindow, local, 'a window on the pool itself');
    });
  });

  check('read of a chained value is whole', async ({ s }) => {
    const value = patternBytes(100_000);
    await s.set('k', value);
    assert.ok(await s.read('k', (bytes) => Buffer.from(bytes).equals(value)));
  });

  check('an error of the callback comes through and the store goes on', async ({ s }) => {
    await s.set('k', 'v');
    const failure = new Error('from the callback');
    for (let i = 0; i < 100; i++) {
      await assert.rejects(
        () =>
          s.read('k', () => {
            throw failure;
          }),
        failure,
      );
    }
    await s.set('k', 'w');
    assert.equal(await s.get('k'), 'w');
  });

  check('calls within the callback, and the bytes stay what they were', async ({ s }) => {
    // The callback is synchronous, so it needs the synchronous twin of either.
    const sync = local ? s.sync : undefined;
    const value = patternBytes(64, 5);
    await s.set('k', value);
    await s.set('other', 'o');
    await s.read('k', (bytes) => {
      if (sync) {
        sync.set('k', 'replaced');
        assert.equal(sync.get('k'), 'replaced');
        sync.delete('k');
        for (let i = 0; i < 3000; i++) sync.set(`fill ${i % 100}`, patternBytes(64, i));
        assert.equal(
          sync.read('other', (inner) => Buffer.from(inner).toString()),
          'o',
        );
        assert.deepEqual(sync.getMany(['other', 'k']), ['o', undefined]);
        assert.equal(sync.increment('n'), 1);
      }
      assert.ok(Buffer.from(bytes).equals(value));
    });
    assert.equal(await s.has('k'), !sync);
  });

  check('read while many keys are there', async ({ s }) => {
    const keys = numbered('k', 300);
    await s.setMany(keys.map((key) => [key, key] as const));
    for (const key of keys) {
      assert.equal(await s.read(key, (bytes) => Buffer.from(bytes).toString()), key);
    }
  });
}
