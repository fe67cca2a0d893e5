import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { type TestContext, test } from 'node:test';
import { StepwellError } from '../../../errors.ts';
import { SharedFabric } from '../../../fabrics/shared/shared-fabric.ts';
import { INDEX_KINDS } from '../../../indexes/kinds.ts';
import { LEDGER_LINE_BYTES } from '../../../pool/bound.ts';
import { STORE_WORDS_BYTES, STORE_WORDS_OFFSET } from '../../../pool/layout.ts';
import { type Batch, type Operation, WRITE } from '../../../verbs/index.ts';
import type { IndexName, OpenOptions, Store } from '../../api.ts';
import { ExpirySweep } from '../../calls/expiry-sweep.ts';
import { checkSync, dropStore, dropStoreSync, open, openSync } from '../../open.ts';
import { poolOf } from '../../places/pool-place.ts';
import { requestFor, Stepped } from '../../tests/support/by-hand.ts';
import { codeOf, rejectsCode, throwsCode } from '../../tests/support/codes.ts';
import { attachTo, freshStore, keepOpen, numbered } from '../../tests/support/pools.ts';
import { openAlone, startNodes } from '../../tests/support/remote.ts';
import { counting } from './support/counting.ts';

const NONE = { maxRecords: 3, eviction: 'none' } as const;
const LIMIT = 100;

/** Counts WRITEs of a client's line from now on. */
function linesWritten(t: TestContext): () => number {
  const { execute } = SharedFabric.prototype;
  let count = 0;
  t.mock.method(SharedFabric.prototype, 'execute', function (this: SharedFabric, batch: Batch) {
    for (let i = 0; i < batch.length; i++) {
      if (batch.kind[i] === WRITE && batch.bytes[i] === LEDGER_LINE_BYTES) count++;
    }
    execute.call(this, batch);
  });
  return () => count;
}

/** A client that has counted what it has not done: as one that died before it counted a removal. */
function miscount(t: TestContext, store: Store, records: number): void {
  const { pool, bounded, evictor } = counting(t, store);
  bounded.ledger.changed(records, 64 * records);
  pool.run(evictor.publish());
  pool.close();
}

// biome-ignore lint/correctness/useYield: nothing is done
function* noRoom(): Operation<boolean> {
  return false;
}

/** Every call of a bounded store that may write a line. */
const CALLS: Readonly<Record<string, (store: Store) => unknown>> = {
  stats: (store) => store.stats(),
  set: (store) => store.set('more', 'v'),
  clear: (store) => store.clear(),
  close: (store) => store.close(),
};

for (const [name, call] of Object.entries(CALLS)) {
  test(`${name} of a dropped store writes no line into what has become of its block`, (t) => {
    for (const eviction of ['none', 'lru'] as const) {
      const keeper = freshStore(t);
      const store = openSync(keeper.handle, { store: 'users', maxRecords: 1, eviction });
      keepOpen(t, store).set('a', 'v');
      store.get('a');
      dropStoreSync(keeper.handle, 'users', { force: true });
      const lines = linesWritten(t);
      const outcome = codeOf(() => call(store));
      assert.equal(outcome, name === 'close' ? 'returned undefined' : 'SW_STORE_DROPPED');
      assert.equal(lines(), 0);
      t.mock.restoreAll();
    }
  });

  test(`${name} of a client that was declared dead leaves the next one's line as it is`, (t) => {
    for (const eviction of ['none', 'lru'] as const) {
      const first = freshStore(t, 'memory', { maxRecords: 1, eviction });
      const store = attachTo(t, first, { client: 'taken for dead' });
      store.set('a', 'v');
      store.get('a');
      // Its burst ends, or it would still be in its epoch.
      const other = counting(t, first);
      const rows = other.pool.run(other.pool.membership.rows());
      const row = rows.find((each) => each.name === 'taken for dead');
      assert.ok(row !== undefined && other.pool.run(other.pool.membership.claimRecovery(row)));
      other.pool.run(other.pool.membership.finishRecovery(row));
      for (let i = 0; i < 64; i++) codeOf(() => store.get('a'));
      const lines = linesWritten(t);
      const outcome = codeOf(() => call(store));
      assert.equal(outcome, name === 'close' ? 'returned undefined' : 'SW_REVOKED');
      assert.equal(lines(), 0);
      t.mock.restoreAll();
    }
  });
}

test('a client without a row writes no line', (t) => {
  const { pool, bounded } = counting(t, freshStore(t, 'memory', NONE));
  pool.close();
  bounded.ledger.changed(1, 64);
  const lines = linesWritten(t);
  pool.run(bounded.ledger.publish());
  assert.equal(lines(), 0);
});

test('after a drop the timer of a bounded store looks no more', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const keeper = freshStore(t);
  const store = keepOpen(t, openSync(keeper.handle, { store: 'users', ...NONE }));
  const lines = linesWritten(t);
  const second = async () => {
    t.mock.timers.tick(1000);
    await new Promise(setImmediate);
  };
  store.get('a');
  await second();
  assert.equal(lines(), 1, 'hits and misses are told once a second');
  store.get('a');
  dropStoreSync(keeper.handle, 'users', { force: true });
  for (let i = 0; i < 3; i++) await second();
  assert.equal(lines(), 1);
});

test('a client that closes its store tells what it has counted', (t) => {
  const store = freshStore(t, 'memory', NONE);
  const other = attachTo(t, store);
  other.get('a');
  other.close();
  assert.equal(store.stats().bound?.misses, 1);
});

test('over a network, too', async (t) => {
  const { url } = await startNodes(t, 2);
  const store = await open(url, NONE);
  t.after(() => store.close());
  const other = await openAlone(url, NONE);
  await other.get('a');
  await other.close();
  assert.equal((await store.stats()).bound?.misses, 1);
  // A drop while it is open ends it, and its timer.
  await dropStore(url, 'default', { force: true });
  await rejectsCode('SW_STORE_DROPPED', () => store.stats());
});

test('evictions are told to those who listen', (t) => {
  const store = freshStore(t, 'memory', { maxRecords: 2 });
  const heard: unknown[] = [];
  const listen = (message: unknown) => heard.push(message);
  subscribe('stepwell:eviction', listen);
  t.after(() => unsubscribe('stepwell:eviction', listen));
  for (const key of ['a', 'b', 'c']) store.set(key, 'v');
  assert.deepEqual(heard, [{ store: 'default', expired: false }]);
});

test('what a sweep takes out other clients hear of', (t) => {
  const time = { now: 1_700_000_000_000 };
  const clock = () => time.now;
  const store = freshStore(t, 'memory', { ...NONE, clock, ttlMs: 1000 });
  const { pool, index, evictor, attachment } = counting(t, store);
  pool.clock.now = clock;
  const sweep = new ExpirySweep(attachment, index, evictor);
  // A turn goes through a part of the store.
  const turns = () => {
    let removed = 0;
    for (let turn = 0; removed < 3 && turn < 1000; turn++) {
      time.now += 200;
      removed += pool.run(sweep.turn());
    }
    return removed;
  };
  for (const takeOut of [turns, () => pool.run(sweep.removeSome(3, noRoom))]) {
    for (const key of ['a', 'b', 'c']) store.insert(key, 'v');
    throwsCode('SW_POOL_FULL', () => store.set('d', 'v'));
    time.now += 1000;
    assert.equal(takeOut(), 3);
    assert.equal(store.stats().bound?.records, 0);
  }
});

test('a sweep posts no verb outside of a section: the words may be of another store', (t) => {
  const store = freshStore(t, 'memory', { ...NONE, ttlMs: 1000 });
  store.set('a', 'v');
  const { pool, index, evictor, attachment } = counting(t, store);
  const enter = () => {
    throw new StepwellError('SW_STORE_DROPPED', 'meanwhile');
  };
  const outside = Object.create(attachment, { enter: { value: enter } });
  const sweep = new ExpirySweep(outside, index, evictor);
  const before = pool.fabric.traffic.snapshot();
  throwsCode('SW_STORE_DROPPED', () => pool.run(sweep.turn()));
  throwsCode('SW_STORE_DROPPED', () => pool.run(sweep.removeSome(3, noRoom)));
  assert.deepEqual(pool.fabric.traffic.snapshot(), before);
});

test('a store that is shut by counts of a dead client opens again', (t) => {
  const store = freshStore(t, 'memory', NONE);
  store.set('a', 'v');
  miscount(t, store, 2);
  for (const key of ['b', 'c']) store.set(key, 'v');
  throwsCode('SW_POOL_FULL', () => store.set('d', 'v'));
  assert.equal(store.stats().bound?.records, 3);
});

test('a store that evicts in vain counts its records', (t) => {
  const store = freshStore(t, 'memory', { maxRecords: 3 });
  miscount(t, store, 10);
  for (const key of ['a', 'b', 'c', 'd']) store.set(key, 'v');
  assert.equal(store.size, 3);
  assert.equal(store.stats().bound?.records, 3);
});

test('a store that was cleared is empty by its counts', (t) => {
  for (const wrong of [-20, 20]) {
    const store = freshStore(t, 'memory', { maxRecords: LIMIT });
    miscount(t, store, wrong);
    store.set('a', 'v');
    store.clear();
    const { records, bytes } = store.stats().bound ?? {};
    assert.deepEqual({ records, bytes }, { records: 0, bytes: 0 });
    for (const key of numbered('k', 2 * LIMIT)) store.set(key, 'v');
    assert.equal(store.size, LIMIT);
  }
});

test('of clients that count at once one corrects the sum', (t) => {
  const store = freshStore(t, 'memory', { maxRecords: LIMIT });
  for (const key of numbered('k', 20)) store.set(key, 'v');
  miscount(t, store, 7);
  const clients = [counting(t, store), counting(t, store), counting(t, store)];
  const steps = clients.map(({ pool, evictor }) => new Stepped(pool.fabric, evictor.recount()));
  while (steps.some(({ done }) => !done)) {
    for (const each of steps) if (!each.done) each.step();
  }
  const { records, bytes } = store.stats().bound ?? {};
  assert.deepEqual({ records, bytes }, { records: 20, bytes: 20 * 64 });
});

test('what other clients do during a recount is counted once', (t) => {
  const store = freshStore(t, 'memory', { maxRecords: 10 * LIMIT });
  for (const key of numbered('k', 50)) store.set(key, 'v');
  const { pool, evictor } = counting(t, store);
  const recount = new Stepped(pool.fabric, evictor.recount());
  for (let i = 0; !recount.done; i++) {
    store.set(`more ${i}`, 'v');
    recount.step();
  }
  assert.equal(store.stats().bound?.records, store.size);
});

test('clients that find too many records at once do not each evict all of them', (t) => {
  const store = freshStore(t, 'memory', { maxRecords: LIMIT });
  const clients = Array.from({ length: 4 }, () => counting(t, store));
  for (const key of numbered('k', LIMIT)) store.set(key, 'v');
  // Another client has added 40 records, and died before it evicted as many.
  const { pool, index, bounded, evictor } = counting(t, store);
  for (const key of numbered('more', 40)) {
    pool.enter();
    pool.run(index.write(requestFor({ index }, key, 'v'), 0));
    pool.exit();
  }
  bounded.ledger.changed(40, 40 * 64);
  pool.run(evictor.publish());
  pool.close();
  const steps = clients.map((client) => {
    client.pool.run(client.bounded.look());
    const request = requestFor(client, 'none');
    return new Stepped(client.pool.fabric, client.evictor.settle(request));
  });
  while (steps.some(({ done }) => !done)) {
    for (const each of steps) if (!each.done) each.step();
  }
  const { size } = store;
  assert.ok(size <= LIMIT && size > LIMIT - clients.length, `${size} records`);
});

test('a damaged record in a sample fails no write that was stored', (t) => {
  for (const index of ['race', 'sephash', 'shard'] as const) {
    const store = freshStore(t, 'memory', { index, maxRecords: 20 });
    const damaged = 'sixteen-byte-key';
    store.set(damaged, 'w'.repeat(40));
    const [region] = poolOf(store.handle) as SharedArrayBuffer[];
    const start = Buffer.from(region).indexOf(damaged) - 16;
    assert.ok(start > 0);
    // The length of its value.
    new DataView(region).setUint8(start + 4, 40 + 128);
    for (let i = 0; i < 60; i++) {
      store.set(`k${i}`, 'v');
      assert.equal(store.get(`k${i}`), 'v', index);
    }
    assert.ok(store.stats().records <= 21, `${index}: ${store.stats().records}`);
  }
});

test('a bound that no creator wrote is damage', (t) => {
  const store = freshStore(t, 'memory', NONE);
  const other = openSync(store.handle, { store: 'other' });
  keepOpen(t, other).set('k', 'v');
  const [region] = poolOf(store.handle) as SharedArrayBuffer[];
  const words = new BigInt64Array(region, STORE_WORDS_OFFSET, STORE_WORDS_BYTES >> 3);
  const [limit, kind, block] = words.subarray(3, 6);
  const damage: [word: number, value: bigint][] = [
    [3, 0n],
    [3, -1n],
    [4, 5n],
    [4, kind | 0x100n],
    [4, kind | 0x1_0000_0000n],
    [5, 0n],
    [5, block + 8n],
    [5, block + 64n],
    [5, block + 2n ** 18n],
    [5, 4096n],
    [5, 2n ** 62n],
  ];
  for (const [word, value] of damage) {
    words.set([limit, kind, block], 3);
    words[word] = value;
    throwsCode('SW_POOL_CORRUPT', () => attachTo(t, store, { store: 'default' }).close());
  }
  words.set([limit, kind, block], 3);
  attachTo(t, store, { store: 'default' }).close();
});

test('a damaged line shuts no store', (t) => {
  const store = freshStore(t, 'memory', NONE);
  const { bounded } = counting(t, store);
  const [region] = poolOf(store.handle) as SharedArrayBuffer[];
  const line = new Float64Array(region, bounded.bound.block + 5 * LEDGER_LINE_BYTES, 8);
  for (const value of [1e300, -1e300, Number.POSITIVE_INFINITY, Number.NaN, 2 ** 54]) {
    line.fill(value);
    store.clear();
    for (const key of ['a', 'b', 'c']) store.set(key, 'v');
    throwsCode('SW_POOL_FULL', () => store.set('d', 'v'));
    assert.equal(store.stats().bound?.records, 3);
  }
});

test('an eviction that cannot begin takes no sample', (t) => {
  const { pool, bounded, evictor } = counting(t, freshStore(t, 'memory', { maxRecords: 1 }));
  const taken = t.mock.method(bounded, 'newSampling');
  pool.close();
  throwsCode('SW_CLOSED', () => pool.run(evictor.evictOne()));
  assert.equal(taken.mock.callCount(), 0);
});

test('a key whose record has expired is written anew in a store that is shut', (t) => {
  const time = { now: 1_700_000_000_000 };
  const options: OpenOptions = { ...NONE, clock: () => time.now };
  const store = freshStore(t, 'memory', options);
  const keys = ['a', 'b', 'c'];
  const writes: readonly ((key: string) => unknown)[] = [
    (key) => store.insert(key, '1'),
    (key) => store.set(key, '1'),
    (key) => store.increment(key),
  ];
  for (const key of keys) store.set(key, 'v', { ttlMs: 10 });
  time.now += 10;
  for (const [i, write] of writes.entries()) write(keys[i]);
  for (const write of writes) throwsCode('SW_POOL_FULL', () => write('d'));
  assert.deepEqual(store.getMany(keys), ['1', '1', '1']);
  assert.equal(store.stats().bound?.records, 3);
});

test('a value that the pool has no room for evicts nothing', (t) => {
  const store = freshStore(t, 'memory', { size: 8 * 2 ** 20, maxRecords: 100 });
  const keys = numbered('k', 100);
  for (const key of keys) store.set(key, 'v');
  const large = new Uint8Array(16 * 2 ** 20);
  throwsCode('SW_POOL_FULL', () => store.set('large', large));
  throwsCode('SW_POOL_FULL', () => store.append('large', large));
  assert.ok(keys.every((key) => store.has(key)));
});

test('a damaged line that no correction can make good empties no store, and shuts none', (t) => {
  for (const [eviction, value] of [
    ['lru', 1e12],
    ['none', 1e12],
    ['lru', 1e6],
  ] as const) {
    const store = freshStore(t, 'memory', { maxRecords: 200, eviction });
    const keys = numbered('k', 150);
    for (const key of keys) store.set(key, 'v');
    const { bounded } = counting(t, store);
    const [region] = poolOf(store.handle) as SharedArrayBuffer[];
    const line = new Float64Array(region, bounded.bound.block + 5 * LEDGER_LINE_BYTES, 8);
    line.fill(value, 0, 2);
    store.stats();
    for (const key of numbered('n', 20)) store.set(key, 'v');
    assert.ok(keys.every((key) => store.has(key)));
    assert.equal(store.stats().bound?.records, 170);
  }
});

test('what is in flight when its store is closed is counted, too', async (t) => {
  const { url } = await startNodes(t);
  const first = await openAlone(url, { maxRecords: 100 });
  const second = await openAlone(url);
  const writes = numbered('k', 400).map((key) => second.set(key, 'v'));
  await writes[0];
  await second.close();
  await Promise.allSettled(writes);
  const { records, bound } = await first.stats();
  await first.close();
  assert.equal(bound?.records, records);
});

test('a bound of null is refused', (t) => {
  const wrong = { maxRecords: null } as unknown as OpenOptions;
  throwsCode('SW_INVALID_ARGUMENT', () => freshStore(t, 'memory', wrong));
});

const fail = () => {
  throw new Error('of its own');
};

test('a chance that is none raises an error, and the bound holds', (t) => {
  const values = [Number.NaN, -0.5, 1, '0.5', undefined];
  const chances = [...values.map((value) => () => value as number), fail];
  for (const { manifest } of INDEX_KINDS) {
    const index = manifest.name as IndexName;
    for (const chance of chances) {
      const options = { index, maxRecords: 5, eviction: 'adaptive', chance } as const;
      const store = freshStore(t, 'memory', options);
      for (const key of numbered('k', 5)) store.set(key, 'v');
      for (const key of numbered('l', 20)) {
        const what = `${index}, ${chance}`;
        throwsCode('SW_INVALID_ARGUMENT', () => store.set(key, 'v'), what);
        assert.ok(store.has(key), 'what raised it was stored');
      }
      const { records, bound } = store.stats();
      assert.deepEqual([records, bound?.records], [5, 5]);
      assert.deepEqual(checkSync(store.handle).problems, []);
    }
  }
});

test('a chance that is none is told of once, also by calls that change a value', async (t) => {
  const drawn: number[] = [];
  const chance = () => drawn.shift() ?? 0.5;
  const { url } = await startNodes(t);
  const remote = await openAlone(url, { maxRecords: 3, chance });
  t.after(() => remote.close());
  for (const store of [freshStore(t, 'memory', { maxRecords: 3, chance }).async, remote]) {
    for (const key of numbered('k', 3)) await store.increment(key);
    drawn.push(7);
    const refused = { code: 'SW_INVALID_ARGUMENT', message: /chance .*7.* \[0, 1\)/ };
    await assert.rejects(store.increment('n'), refused);
    assert.equal(await store.increment('n'), 2);
    await store.set('m', 'v');
    assert.equal((await store.stats()).records, 3);
  }
});

test('what is in flight when its store is closed is evicted, too', async (t) => {
  const { url } = await startNodes(t);
  const first = await openAlone(url, { maxRecords: 100 });
  for (const close of [1, 2]) {
    const other = await openAlone(url);
    const writes = numbered(`k${close}`, 250).map((key) => other.set(key, 'v'));
    await writes[0];
    await other.close();
    await Promise.allSettled(writes);
    const { records, bound } = await first.stats();
    assert.ok(records <= 101, `${records} records`);
    assert.equal(bound?.records, records);
  }
  await first.close();
});

test('a recount while as many records come as are evicted changes no count', async (t) => {
  const { url } = await startNodes(t);
  const index = { kind: 'hopscotch', span: 6, neighbourhood: 3 } as const;
  // Twice the bound and more comes at once: then a client counts.
  for (const name of ['a', 'b', 'c', 'd']) {
    const store = await openAlone(url, { store: name, index, maxRecords: 100 });
    for (const keys of ['k', 'l']) {
      await store.setMany(numbered(keys, 300).map((key) => [key, 'v'] as const));
    }
    const { records, bound } = await store.stats();
    await store.close();
    assert.equal(bound?.records, records);
  }
});
