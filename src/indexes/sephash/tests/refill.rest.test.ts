import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StepwellError } from '../../../errors.ts';
import { Prng } from '../../../random/prng.ts';
import type { Store, Value } from '../../../store/api.ts';
import { checkSync } from '../../../store/open.ts';
import { throwsCode } from '../../../store/tests/support/codes.ts';
import { attachTo, fixChances, freshStore } from '../../../store/tests/support/pools.ts';

/** The least capacity of a later round, of the first: an index may take two of 16 chunks more. */
const SHARE_MIN = 3 / 4;
const OPTIONS = { size: 4 * 2 ** 20, maxClients: 8, index: 'sephash' } as const;
/** The chunks that two clients claim in matter less in it. */
const LARGER = 6 * 2 ** 20;
const SMALL_INDEX = { kind: 'sephash', segmentBytes: 128, ratio: 8, maxDepth: 12 } as const;
const SMALL_SEGMENTS = { ...OPTIONS, index: SMALL_INDEX };

/** Puts new keys until the pool is full; returns them. */
function fill(store: Store<Value>, round: number, sizes: readonly number[]): string[] {
  const keys: string[] = [];
  throwsCode('SW_POOL_FULL', () => {
    for (;;) {
      const key = `round ${round} key ${keys.length}`;
      store.set(key, 'v'.repeat(sizes[keys.length % sizes.length]));
      keys.push(key);
    }
  });
  return keys;
}

function shuffled(keys: readonly string[], seed: number): string[] {
  const prng = Prng.fromSeed(seed);
  const order = [...keys];
  for (let i = order.length - 1; i > 0; i--) {
    const j = prng.below(i + 1);
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}

/** The event loop turns: clients that did something in this one are idle then. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

for (const options of [OPTIONS, SMALL_SEGMENTS]) {
  const shape = options === OPTIONS ? '' : ', small segments';
  const mixed = [20, 3000, 100, 9000, 500];
  for (const sizes of options === OPTIONS ? [[40], [500], mixed] : [[500], mixed]) {
    for (const empties of ['delete', 'clear'] as const) {
      const name = `values of ${sizes} bytes: after ${empties} there is room for as many${shape}`;
      test(name, async (t) => {
        fixChances(t);
        const store = freshStore(t, 'memory', options);
        let first = 0;
        for (let round = 0; round < 3; round++) {
          const keys = fill(store, round, sizes);
          first ||= keys.length;
          assert.ok(keys.length >= SHARE_MIN * first, `round ${round}: ${keys.length} of ${first}`);
          if (empties === 'clear') store.clear();
          else for (const key of shuffled(keys, round)) assert.ok(store.delete(key), key);
          assert.equal(store.size, 0);
          await turn();
        }
        assert.deepEqual(checkSync(store.handle).problems, []);
      });
    }
  }

  test(`another client empties a pool that an idle one has filled${shape}`, async (t) => {
    fixChances(t);
    const owner = freshStore(t, 'memory', { ...options, size: LARGER });
    const keys = fill(owner, 0, [1000]);
    await turn();
    const other = attachTo(t, owner);
    for (const key of shuffled(keys, 5)) assert.ok(other.delete(key), key);
    assert.equal(other.size, 0);
    // Of what it has retired it gives back the rest when it leaves, or some time later.
    other.close();
    const again = fill(owner, 1, [1000]);
    assert.ok(again.length >= SHARE_MIN * keys.length, `${again.length} of ${keys.length}`);
    await turn();
    attachTo(t, owner).clear();
    assert.equal(owner.size, 0);
    assert.deepEqual(checkSync(owner.handle).problems, []);
  });

  test(`values of another size find room after a pool was emptied${shape}`, async (t) => {
    fixChances(t);
    const store = freshStore(t, 'memory', options);
    const large = fill(store, 0, [9000]);
    for (const key of shuffled(large, 7)) store.delete(key);
    await turn();
    const small = fill(store, 1, [100]);
    for (const key of shuffled(small, 8)) store.delete(key);
    await turn();
    assert.ok(fill(store, 2, [9000]).length >= SHARE_MIN * large.length);
  });
}

for (const [mebibytes, bytes] of [
  [2, 40],
  [2.25, 100],
  [2.75, 500],
]) {
  const name = `of ${mebibytes} MiB that idle clients filled with values of ${bytes} bytes`;
  test(`a client without memory deletes everything from a pool ${name}`, async (t) => {
    fixChances(t);
    const size = mebibytes * 2 ** 20;
    const first = freshStore(t, 'memory', { ...SMALL_SEGMENTS, size });
    // In turn, so that records and parts of the index of all three are mixed in the pool.
    const clients = [first, attachTo(t, first), attachTo(t, first)];
    const keys: string[] = [];
    for (let left = clients; left.length > 0; await turn()) {
      left = left.filter((client) => isStored(client, `key ${keys.length}`, bytes, keys));
    }
    const other = attachTo(t, first);
    for (const key of shuffled(keys, 5)) assert.ok(other.delete(key), key);
    assert.equal(other.size, 0);
    assert.deepEqual(checkSync(first.handle).problems, []);
  });
}

/** Puts one key more; false when the pool is full. */
function isStored(store: Store<Value>, key: string, bytes: number, keys: string[]): boolean {
  try {
    store.set(key, 'v'.repeat(bytes));
  } catch (error) {
    assert.equal((error as StepwellError).code, 'SW_POOL_FULL');
    return false;
  }
  keys.push(key);
  return true;
}
