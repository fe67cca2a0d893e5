import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open } from '../../open.ts';
import { startNodes } from '../../tests/support/remote.ts';

const TTL = { ttlMs: 3_600_000 };
const text = (bytes: Uint8Array | string | undefined) => bytes && Buffer.from(bytes).toString();

/** Round trips of a call go on while its caller fills the same buffers with something else. */
test('a caller may use its buffers again as soon as a call has begun', async (t) => {
  const { url } = await startNodes(t, 1, { bytes: 16 * 2 ** 20 });
  type Call = (store: Awaited<ReturnType<typeof open>>, key: Buffer, value: Buffer) => unknown;
  const calls: Record<string, Call> = {
    set: (store, key, value) => store.set(key, value, TTL),
    insert: (store, key, value) => store.insert(key, value, TTL),
    'write, keepTtl': (store, key, value) => store.write(key, value, { ...TTL, keepTtl: true }),
    setMany: (store, key, value) => store.setMany([[key, value]], TTL),
    append: (store, key, value) => store.append(key, value, TTL),
    swap: (store, key, value) => store.swap(key, value, TTL),
  };
  for (const [name, call] of Object.entries(calls)) {
    // Of a handle's own, whose first record with a time says so in the catalog.
    const store = await open(url, {
      store: `s${Object.keys(calls).indexOf(name)}`,
      values: 'auto',
    });
    const [key, value] = [Buffer.from('a key'), Buffer.from('a value')];
    const called = call(store, key, value);
    key.fill('x');
    value.fill('y');
    await called;
    assert.equal(text(await store.get('a key')), 'a value', name);
    const found = await store.getEntry('a key');
    assert.ok(found);
    key.write('a key');
    value.write('another');
    const replaced = store.compareAndSet(key, found.version, value, { keepTtl: true });
    key.fill('x');
    value.fill('y');
    assert.notEqual(await replaced, undefined, name);
    assert.equal(text(await store.get('a key')), 'another', name);
    key.write('a key');
    const expiring = store.expire(key, TTL);
    key.fill('x');
    assert.equal(await expiring, true, name);
    assert.deepEqual(await store.get('xxxxx'), undefined, name);
    await store.close();
  }
});
