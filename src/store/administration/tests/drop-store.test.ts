import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { INDEX_KINDS } from '../../../indexes/kinds.ts';
import { sweep } from '../../../indexes/sweep.ts';
import type { LocalPool } from '../../../pool/local-pool.ts';
import { CHUNK_FREE, unpackChunk } from '../../../pool/memory/chunk-word.ts';
import { rounds } from '../../../random/tests/support/rounds.ts';
import type { IndexName, OpenOptions, PoolHandle } from '../../api.ts';
import { ThreadClients } from '../../local/local-client.ts';
import {
  attach,
  checkSync,
  dropStore,
  dropStoreSync,
  inspectSync,
  open,
  openAloneSync,
  openSync,
} from '../../open.ts';
import { Stepped } from '../../tests/support/by-hand.ts';
import { rejectsCode, throwsCode } from '../../tests/support/codes.ts';
import { freshStore, freshUrl, keepOpen, numbered, SMALL } from '../../tests/support/pools.ts';
import { Child } from '../../tests/support/processes/children.ts';
import { startNodes } from '../../tests/support/remote.ts';
import { freeDropped, markDropped } from '../tasks.ts';

const MIB = 2 ** 20;
const KINDS = INDEX_KINDS.map(({ manifest }) => manifest.name as IndexName);
const TINY: OpenOptions = { index: { kind: 'race', groups: 2, initialDepth: 0, maxDepth: 4 } };
const turn = () => new Promise((resolve) => setImmediate(resolve));

function poolOf(t: TestContext, handle: PoolHandle): LocalPool {
  const { client } = attach(handle, { create: false });
  t.after(() => client.end());
  return client.pool;
}

/** Chunks that say they are of the store in this row of the catalog. */
function chunksOf(pool: LocalPool, catalog: number): number {
  const words = pool.run(pool.chunks.words()).map(([, word]) => unpackChunk(word));
  return words.filter((word) => word.catalog === catalog && word.state !== CHUNK_FREE).length;
}

function names(handle: PoolHandle): string[] {
  return inspectSync(handle).stores.map(({ name, state }) => `${name} ${state}`);
}

for (const index of KINDS) {
  test(`${index}: all that a dropped store had is for others, again and again`, (t) => {
    const keeper = freshStore(t, 'memory', { size: 24 * MIB, regionSize: 24 * MIB });
    keeper.set('k', 'kept');
    const pool = poolOf(t, keeper.handle);
    // The first round makes what the keeper itself needs.
    const left: number[] = [];
    for (let round = 0; round < rounds(3, 12); round++) {
      const store = openSync(keeper.handle, { store: 'round', index });
      store.setMany(numbered('k', 6000).map((key) => [key, key.padEnd(400)] as const));
      store.deleteMany(numbered('k', 2000));
      assert.equal(store.size, 4000);
      throwsCode('SW_POOL_BUSY', () => dropStoreSync(keeper.handle, 'round'));
      store.close();
      const { bytes, heldBy } = dropStoreSync(keeper.handle, 'round');
      assert.deepEqual(heldBy, []);
      assert.ok(bytes > 2 * MIB, `${bytes} bytes`);
      assert.equal(chunksOf(pool, 2), 0);
      throwsCode('SW_STORE_NOT_FOUND', () => dropStoreSync(keeper.handle, 'round'));
      throwsCode('SW_STORE_NOT_FOUND', () =>
        openSync(keeper.handle, { store: 'round', create: false }),
      );
      left.push(inspectSync(keeper.handle).chunks.used);
    }
    assert.equal(left.at(-1), left[1]);
    assert.equal(keeper.get('k'), 'kept');
    assert.deepEqual(checkSync(keeper.handle).problems, []);
  });

  test(`${index}: clients that have it open are told, and harm no store made after it`, async (t) => {
    const keeper = freshStore(t, 'memory', { size: 32 * MIB, regionSize: 32 * MIB });
    const options = { store: 'users', index };
    const one = keepOpen(t, openAloneSync(keeper.handle, options));
    const two = keepOpen(t, openAloneSync(keeper.handle, options));
    const here = keepOpen(t, openSync(keeper.handle, options));
    const keys = numbered('k', 800);
    for (const store of [one, two, here]) {
      for (const key of keys) store.set(key, key.padEnd(60));
      store.deleteMany(keys.slice(0, 100));
    }
    const walk = one.entries();
    walk.next();
    // As another process does it: nobody here hears of it.
    const dropper = poolOf(t, keeper.handle);
    const marked = dropper.run(markDropped(dropper, 'memory:', 'users', true));
    const { heldBy } = dropper.run(freeDropped(dropper, marked));
    assert.ok(heldBy.length > 0);
    const fresh = keepOpen(t, openSync(keeper.handle, { ...options, create: true }));
    for (const key of keys) fresh.set(key, `fresh ${key}`.padEnd(60));
    await turn();
    for (const store of [one, two, here]) {
      throwsCode('SW_STORE_DROPPED', () => store.get('k300'));
      throwsCode('SW_STORE_DROPPED', () => store.set('k300', 'late'));
      throwsCode('SW_STORE_DROPPED', () => store.getMany(keys));
      throwsCode('SW_STORE_DROPPED', () => store.size);
    }
    throwsCode('SW_STORE_DROPPED', () => [...walk]);
    for (const store of [one, two]) store.close();
    const third = keepOpen(t, openSync(keeper.handle, { store: 'third', index }));
    for (const key of keys) third.set(key, `third ${key}`.padEnd(60));
    assert.deepEqual(
      fresh.getMany(keys),
      keys.map((key) => `fresh ${key}`.padEnd(60)),
    );
    assert.equal(third.get('k7'), 'third k7'.padEnd(60));
    // When the last one has let go, the next drop gives the memory back, be it in vain itself.
    ThreadClients.ofThread().lookAgain();
    throwsCode('SW_STORE_NOT_FOUND', () => dropStoreSync(keeper.handle, 'missing'));
    assert.deepEqual(
      names(keeper.handle).filter((name) => !name.endsWith(' ready')),
      [],
    );
    assert.deepEqual(
      third.getMany(keys.slice(0, 2)),
      ['third k0', 'third k1'].map((value) => value.padEnd(60)),
    );
    assert.deepEqual(checkSync(keeper.handle).problems, []);
  });
}

test('while clients of other processes have it open: refused, by name; forced: they are told', async (t) => {
  const url = freshUrl(t, 'shm');
  const keeper = keepOpen(t, openSync(url, { ...SMALL, ...TINY }));
  const child = new Child(t);
  const options = { store: 'users', client: 'web', ...TINY };
  const order = { kind: 'open', url, options, at: 0, key: 'k' } as const;
  assert.equal(await child.ask(order), 'open');
  assert.throws(
    () => dropStoreSync(url, 'users'),
    new RegExp(`process ${child.process.pid} \\(web\\).*--force`),
  );
  // Otherwise it might let go as soon as it learns of the drop.
  await child.signal('SIGSTOP');
  const { heldBy, bytes } = dropStoreSync(url, 'users', { force: true });
  assert.deepEqual(heldBy, [`process ${child.process.pid} (web)`]);
  assert.ok(bytes > 0);
  assert.deepEqual(names(url), ['default ready', 'users dropped']);
  // Its name is free at once.
  const fresh = keepOpen(t, openSync(url, { store: 'users', ...TINY }));
  fresh.set('k', 'fresh');
  assert.deepEqual(names(url), ['default ready', 'users dropped', 'users ready']);
  await child.signal('SIGCONT');
  assert.equal(await child.ask({ kind: 'read', key: 'k' }), 'SW_STORE_DROPPED');
  assert.equal(fresh.get('k'), 'fresh');
  // The child has let go; whoever makes or drops a store next gives the memory back.
  keepOpen(t, openSync(url, { store: 'another', ...TINY }));
  assert.deepEqual(names(url), ['default ready', 'another ready', 'users ready']);
  assert.deepEqual(checkSync(url).problems, []);
  keeper.set('k', 'v');
});

test('a client that is killed with a dropped store open holds it no longer', async (t) => {
  const url = freshUrl(t, 'shm');
  const keeper = keepOpen(t, openSync(url, { ...SMALL, ...TINY }));
  const child = new Child(t);
  const order = {
    kind: 'open',
    url,
    options: { store: 'users', ...TINY },
    at: 0,
    key: 'k',
  } as const;
  assert.equal(await child.ask(order), 'open');
  // Otherwise it might let go as soon as it learns of the drop.
  await child.signal('SIGSTOP');
  assert.equal(dropStoreSync(url, 'users', { force: true }).heldBy.length, 1);
  child.process.kill('SIGKILL');
  await child.exited;
  keepOpen(t, openSync(url, { store: 'another', ...TINY }));
  const pool = poolOf(t, url);
  assert.deepEqual(names(url), ['default ready', 'another ready']);
  assert.ok(chunksOf(pool, 2) > 0);
  keeper.set('k', 'v');
  assert.deepEqual(checkSync(url).problems, []);
});

test('the dropper may die anywhere: the store is there, or a full pool gets all of it', (t) => {
  let kept = 0;
  let gone = 0;
  for (let steps = 0; ; steps++) {
    const keeper = freshStore(t, 'memory', { size: 8 * MIB, regionSize: 8 * MIB });
    keeper.set('k', 'v');
    const store = openSync(keeper.handle, { store: 'users', index: 'chime' });
    store.setMany(numbered('k', 2000).map((key) => [key, key] as const));
    store.close();
    ThreadClients.ofThread().lookAgain();
    const pool = poolOf(t, keeper.handle);
    const dying = poolOf(t, keeper.handle);
    const before = inspectSync(keeper.handle).chunks.used;
    const dropping = new Stepped(
      dying.fabric,
      (function* () {
        const marked = yield* markDropped(dying, 'memory:', 'users', false);
        yield* freeDropped(dying, marked);
      })(),
    );
    while (!dropping.done && dropping.steps < steps) dropping.step();
    if (dropping.done) break;
    dropping.dieAfter(dropping.verbs >> 1);
    // As the system finds a thread that is gone.
    const rows = pool.run(pool.membership.rows());
    const row = rows.find(({ id }) => id === dying.membership.id);
    assert.ok(row !== undefined && pool.run(pool.membership.claimRecovery(row)));
    pool.run(pool.chunks.settleOwned(row.id, row.incarnation));
    pool.run(pool.membership.finishRecovery(row));
    const where = `dead after ${steps} doorbells`;
    if (names(keeper.handle).includes('users ready')) {
      kept++;
      const again = openSync(keeper.handle, { store: 'users' });
      assert.equal(again.size, 2000, where);
      again.close();
      dropStoreSync(keeper.handle, 'users');
    } else {
      gone++;
      const { client } = attach(keeper.handle, {});
      const { index } = client.open({});
      client.pool.run(sweep(client.pool, index));
      client.end();
      throwsCode('SW_STORE_NOT_FOUND', () => dropStoreSync(keeper.handle, 'users'));
    }
    assert.equal(chunksOf(pool, 2), 0, where);
    assert.ok(inspectSync(keeper.handle).chunks.used < before, where);
    assert.deepEqual(names(keeper.handle), ['default ready'], where);
    assert.deepEqual(checkSync(keeper.handle).problems, [], where);
    keeper.close();
  }
  assert.ok(kept > 2 && gone > 2, `${kept} kept, ${gone} gone`);
});

test('a client that opens the store while it is dropped: one of the two sees the other', (t) => {
  let opened = 0;
  let missed = 0;
  for (let steps = 0; steps < 40; steps++) {
    const keeper = freshStore(t, 'memory', SMALL);
    const made = openSync(keeper.handle, { store: 'users', ...TINY });
    made.set('k', 'v');
    made.close();
    ThreadClients.ofThread().lookAgain();
    const opener = poolOf(t, keeper.handle);
    const opening = new Stepped(opener.fabric, opener.stores.open('users'));
    while (!opening.done && opening.steps < steps) opening.step();
    const before = opening.done;
    const dropper = poolOf(t, keeper.handle);
    dropper.run(freeDropped(dropper, dropper.run(markDropped(dropper, 'memory:', 'users', true))));
    const fresh = openSync(keeper.handle, { store: 'next', ...TINY });
    fresh.set('k', 'fresh');
    if (!opening.done) opening.finish();
    const isNamed = opener.membership.names(2);
    if (before) {
      opened++;
      assert.ok(isNamed);
      // Its memory is still its own: the new store is in another row.
      assert.ok(chunksOf(opener, 2) > 0);
    } else missed++;
    opener.enter();
    opener.exit();
    assert.equal(opener.membership.names(2) && before, false, `${steps} steps`);
    assert.equal(fresh.get('k'), 'fresh');
    fresh.close();
    assert.deepEqual(checkSync(keeper.handle).problems, [], `${steps} steps`);
    keeper.close();
    if (before) break;
  }
  assert.ok(opened > 0 && missed > 3, `${opened} opened, ${missed} missed`);
});

test('a pool whose catalog is full has room again after a drop', (t) => {
  const keeper = freshStore(t, 'memory', { ...TINY, size: 64 * 2 ** 20 });
  for (let i = 1; i < 64; i++) openSync(keeper.handle, { store: `s${i}`, ...TINY }).close();
  const more = () => openSync(keeper.handle, { store: 'one more', ...TINY });
  throwsCode('SW_TOO_MANY_STORES', more);
  assert.throws(more, /64 stores.*stepwell drop/);
  dropStoreSync(keeper.handle, 's7');
  const store = keepOpen(t, more());
  store.set('k', 'v');
  throwsCode('SW_TOO_MANY_STORES', () => openSync(keeper.handle, { store: 's7', ...TINY }));
});

test('bad arguments', async (t) => {
  const store = freshStore(t);
  for (const name of ['', 5, null, 'x'.repeat(49)] as string[]) {
    throwsCode('SW_INVALID_ARGUMENT', () => dropStoreSync(store.handle, name));
    await rejectsCode('SW_INVALID_ARGUMENT', () => dropStore(store.handle, name));
  }
  const options = { force: 'yes' } as object;
  throwsCode('SW_INVALID_ARGUMENT', () => dropStoreSync(store.handle, 'default', options));
  throwsCode('SW_POOL_NOT_FOUND', () => dropStoreSync('shm:limits-never-made', 'x'));
  throwsCode('SW_STORE_NOT_FOUND', () => dropStoreSync(store.handle, 'x'));
});

test('over a network: refused while it is open, forced, and made anew', async (t) => {
  const { url } = await startNodes(t, 2, { bytes: 16 * MIB });
  const keeper = await open(url, { store: 'keeper', ...TINY });
  t.after(() => keeper.close());
  const users = await open(url, { store: 'users', client: 'web', ...TINY });
  t.after(() => users.close());
  await users.set('k', 'v');
  await rejectsCode('SW_POOL_BUSY', () => dropStore(url, 'users'));
  const { bytes } = await dropStore(url, 'users', { force: true });
  assert.ok(bytes > 0);
  await new Promise((resolve) => setTimeout(resolve, 60));
  await rejectsCode('SW_STORE_DROPPED', () => users.get('k'));
  const fresh = await open(url, { store: 'users', ...TINY });
  assert.equal(await fresh.get('k'), undefined);
  await fresh.set('k', 'fresh');
  assert.equal(await fresh.get('k'), 'fresh');
  await fresh.close();
  assert.deepEqual((await dropStore(url, 'users')).heldBy, []);
});
