import assert from 'node:assert/strict';
import { numbered, patternBytes } from '../../support/pools.ts';
import { inThread } from '../../support/processes/children.ts';
import { collect, cramped, grown, mustGrow, type Suite } from './suite.ts';

export function sharingCases({ check, checkSync, manifest }: Suite): void {
  check('two stores of a pool know nothing of each other', async ({ s, attach }) => {
    const other = attach({ store: 'other', index: { kind: 'race', associativity: 3, groups: 5 } });
    assert.equal(other.name, 'other');
    for (let i = 0; i < 200; i++) {
      await s.set(`k${i}`, 'first');
      await other.set(`k${i}`, 'second');
    }
    assert.equal(await s.increment('n'), 1);
    assert.equal(await other.increment('n', 5), 5);
    await other.clear();
    assert.equal(await other.size(), 0);
    assert.equal(await s.size(), 201);
    assert.equal(await s.get('k77'), 'first');
    assert.equal((await s.stats()).records, 201);
  });

  check('what one handle writes the other sees at once', async ({ s, attach }) => {
    const other = attach();
    for (let i = 0; i < 100; i++) {
      await s.set('k', `s${i}`);
      assert.equal(await other.get('k'), `s${i}`);
      const seen = await other.getEntry('k');
      assert.ok((await s.compareAndSet('k', seen?.version ?? -1, 'by version')) !== undefined);
      assert.equal(await other.compareAndSet('k', seen?.version ?? -1, 'stale'), undefined);
      await other.set('k', patternBytes(20_000, i));
      assert.deepEqual(await s.get('k'), patternBytes(20_000, i));
      assert.equal(await other.delete('k'), true);
      assert.equal(await s.has('k'), false);
      assert.equal(await s.insert('k', 'mine'), true);
      assert.equal(await other.insert('k', 'mine'), false);
      assert.equal(await other.increment('n'), 2 * i + 1);
      assert.equal(await s.increment('n'), 2 * i + 2);
    }
  });

  check(
    'a handle whose directory is stale finds everything',
    async ({ s, attach }) => {
      const other = attach();
      assert.equal(await other.get('k0'), undefined);
      const keys = numbered('k', 500);
      await s.setMany(keys.map((key) => [key, key] as const));
      const stats = await s.stats();
      if (mustGrow(manifest, stats)) assert.ok(grown(stats) > 10);
      for (const key of keys) assert.equal(await other.get(key), key);
      assert.deepEqual((await collect(other.keys())).sort(), keys.toSorted());
      const late = attach();
      assert.deepEqual(await late.getMany(keys), keys);
      assert.equal(await late.deleteMany(keys), 500);
      assert.equal(await other.size(), 0);
    },
    cramped(manifest),
  );

  check(
    'two handles split and write in turn',
    async ({ s, attach }) => {
      const other = attach();
      const both = [s, other];
      for (let i = 0; i < 600; i++) await both[i % 2].set(`k${i}`, `v${i}`);
      for (let i = 0; i < 600; i++) {
        assert.equal(await both[(i + 1) % 2].get(`k${i}`), `v${i}`);
        if (i % 3 === 0) assert.equal(await both[i % 2].delete(`k${i}`), true);
      }
      assert.equal(await s.size(), 400);
      assert.equal(await other.size(), 400);
    },
    cramped(manifest),
  );

  check('a client that closes leaves everything to the others', async ({ s, attach }) => {
    const keys = numbered('k', 300);
    const first = attach();
    await first.setMany(keys.map((key) => [key, key] as const));
    await first.close();
    assert.deepEqual(await s.getMany(keys), keys);
    const second = attach();
    await second.setMany(keys.map((key) => [key, `${key} again`] as const));
    await second.close();
    assert.equal(await s.get('k299'), 'k299 again');
    assert.equal(await s.size(), 300);
  });

  checkSync('threads of this process reach the pool by its handle', async (store) => {
    const { handle, name } = store;
    const task = { handle, store: name, increments: 2000, inserts: 400 };
    const prefixes = ['red ', 'blue '];
    const working = prefixes.map((prefix) => inThread({ ...task, prefix }));
    // This thread works too, while its event loop turns.
    for (let i = 0; i < 50; i++) {
      for (let j = 0; j < 20; j++) store.increment('counter');
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.deepEqual(await Promise.all(working), [400, 400]);
    assert.equal(store.get('counter'), '5000');
    for (const prefix of prefixes) {
      assert.deepEqual(store.getMany(numbered(prefix, 400)), numbered(prefix, 400));
    }
    assert.equal(store.size, 801);
  });
}
