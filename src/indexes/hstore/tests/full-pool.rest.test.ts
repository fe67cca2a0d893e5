import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { StepwellError } from '../../../errors.ts';
import { Allocator } from '../../../pool/memory/allocator.ts';
import type { OpenOptions } from '../../../store/api.ts';
import { check, checkSync } from '../../../store/open.ts';
import { requestFor, Stepped } from '../../../store/tests/support/by-hand.ts';
import { attachTo, freshStore, numbered, type Scope } from '../../../store/tests/support/pools.ts';
import { openAlone, startNodes } from '../../../store/tests/support/remote.ts';
import type { Operation } from '../../../verbs/index.ts';
import { ALWAYS, REFUSED } from '../../contract.ts';
import { sweep } from '../../sweep.ts';
import { callHashServer } from '../client/write.ts';
import type { PairServers } from '../index-server.ts';
import { OP_REMOVE_FOUND } from '../protocol/hash-messages.ts';
import { SLOTS, signatureOf } from '../protocol/slot.ts';
import { type Client, get, newClient, put } from './support/clients.ts';

const SIZES = { size: 4 * 2 ** 20, regionSize: 4 * 2 ** 20 };
const SHAPE = { buckets: 64, rows: 64, log: 256 };
/** Some of them fill the pool. */
const VALUE = 'v'.repeat(20_000);
const KEYS_MAX = 1000;
const STEPS_MAX = 20_000;

interface Served {
  clients: Client[];
  server: Client;
  servers: PairServers;
}

function servedPool(scope: Scope): Served {
  const first = newClient(scope, SIZES, { shape: SHAPE });
  const other = () => newClient(scope, { handle: first.handle }, { shape: SHAPE });
  const clients = [first, other(), other(), other()];
  const server = other();
  return { clients, server, servers: server.index.server({ role: 'hash' }) };
}

/** An operation of each of the first clients, at the same time; true or the code of an error. */
function together(
  { clients, server, servers }: Served,
  operations: readonly ((client: Client) => Operation<unknown>)[],
): unknown[] {
  const outcomes: unknown[] = operations.map(() => undefined);
  const asked = operations.map((operation, i) => {
    clients[i].pool.enter();
    return new Stepped(clients[i].pool.fabric, operation(clients[i]));
  });
  for (let steps = 0; outcomes.includes(undefined); steps++) {
    assert.ok(steps < STEPS_MAX, 'nobody gets ahead');
    server.pool.enter();
    server.pool.run(servers.round());
    server.pool.exit();
    asked.forEach((one, i) => {
      if (outcomes[i] !== undefined) return;
      try {
        if (!one.done) one.step();
        if (one.done) outcomes[i] = one.result ?? true;
      } catch (error) {
        outcomes[i] = (error as StepwellError).code ?? error;
      }
    });
  }
  for (const { pool } of clients.slice(0, operations.length)) pool.exit();
  // What the event loop does that turns.
  for (const { pool } of [...clients, server]) {
    pool.betweenOperations(() => pool.reclamation.goOffline());
    pool.betweenOperations(() => pool.reclamation.collect());
  }
  return outcomes;
}

const putting = (key: string) => (client: Client) =>
  client.index.write(requestFor(client, key, VALUE), ALWAYS);
const short = (key: string) => (client: Client) =>
  client.index.write(requestFor(client, key, ''), ALWAYS);
const removing = (key: string) => (client: Client) => client.index.remove(requestFor(client, key));

/** Writes until there is no memory left; returns how many. Everybody has deleted before. */
function fill(served: Served): number {
  const keys = served.clients.map((_, i) => `first ${i}`);
  keys.forEach((key, i) => {
    const alone = { ...served, clients: [served.clients[i]] };
    assert.deepEqual(together(alone, [short(key)]).length, 1);
    assert.deepEqual(together(alone, [removing(key)]), [true]);
  });
  for (let key = 0; key < KEYS_MAX; key++) {
    const [outcome] = together(served, [putting(`key ${key}`)]);
    if (outcome === 'SW_POOL_FULL') return key;
  }
  assert.fail('the pool is never full');
}

test('a server process goes on in a full pool, and when there is memory again', (t) => {
  const served = servedPool(t);
  const keys = fill(served);
  assert.ok(keys > 20);
  // More requests at once than any turn had before: its record needs a block of another size.
  for (let round = 0; round < 3; round++) {
    const outcomes = together(
      served,
      [0, 1, 2].map((i) => putting(`more ${round} ${i}`)),
    );
    for (const outcome of outcomes) assert.equal(outcome, 'SW_POOL_FULL');
  }
  for (let first = 0; first < 12; first += 3) {
    const three = [first, first + 1, first + 2].map((key) => removing(`key ${key}`));
    assert.deepEqual(together(served, three), [true, true, true]);
  }
  assert.equal(together(served, [putting('again')])[0] === 'SW_POOL_FULL', false);
  assert.equal(get(served.clients[1], 'again'), VALUE);
  assert.equal(get(served.clients[1], 'key 0'), undefined);
});

test('who has no memory for turns takes no lease, and others delete', (t) => {
  const served = servedPool(t);
  const { clients, server, servers } = served;
  const idle = { ...served, servers: { round: function* () {} } as unknown as PairServers };
  const keys = fill(idle);
  const late = () => server.index.server({ role: 'hash' });
  server.pool.run(server.pool.reclamation.quiesce());
  assert.equal(server.pool.run(servers.round()).held, 0);
  for (let key = 0; key < keys; key++)
    assert.deepEqual(together(idle, [removing(`key ${key}`)]), [true]);
  clients[0].pool.close();
  clients[1].pool.betweenOperations(() => sweep(clients[1].pool, clients[1].index));
  server.pool.run(server.pool.reclamation.quiesce());
  assert.equal(server.pool.run(late().round()).held, 1);
});

test('a client that has filled the pool and never deleted clears it, round after round', (t) => {
  const store = freshStore(t, 'memory', { ...SIZES, index: { kind: 'hstore', ...SHAPE } });
  let first = 0;
  for (let round = 0; round < 3; round++) {
    let keys = 0;
    assert.throws(
      () => {
        for (; ; keys++) store.set(`round ${round} key ${keys}`, 'v'.repeat(500));
      },
      { code: 'SW_POOL_FULL' },
    );
    first ||= keys;
    assert.ok(keys >= 0.9 * first, `${keys} of ${first}`);
    if (round === 0) for (let i = 0; i < 50; i++) assert.ok(store.delete(`round 0 key ${i}`));
    assert.equal(store.delete('never there'), false);
    store.clear();
    assert.equal(store.size, 0);
  }
});

const FILLED: OpenOptions = {
  ...SIZES,
  maxClients: 8,
  index: { kind: 'hstore', rows: 256, log: 256, buckets: 1024 },
};

function* records(bytes: number): Generator<[string, string]> {
  for (let i = 0; i < 20_000; i++) yield [`${i}`, 'v'.repeat(bytes)];
}

/** From now on nobody gets a block: blocks of other sizes may be left in the pool. */
function leaveNothing(t: TestContext): void {
  t.mock.method(Allocator.prototype, 'refill', () => {
    throw new StepwellError('SW_POOL_FULL', 'no block is left');
  });
}

test('a client that owns no block deletes everything from a full pool', async (t) => {
  const owner = freshStore(t, 'memory', FILLED);
  assert.throws(() => owner.setMany(records(500)), { code: 'SW_POOL_FULL' });
  const { size } = owner;
  const fresh = attachTo(t, owner);
  // The owner sleeps from now on.
  await new Promise((resolve) => setImmediate(resolve));
  leaveNothing(t);
  assert.equal(fresh.deleteMany(numbered('', 100)), 100);
  assert.equal(fresh.delete('never there'), false);
  assert.equal(fresh.size, size - 100);
  fresh.clear();
  assert.equal(fresh.size, 0);
  assert.deepEqual(checkSync(owner.handle).problems, []);
});

test('so it does over TCP, with many deletions in flight', async (t) => {
  const { url } = await startNodes(t, 1, { bytes: SIZES.size });
  const alone = async () => {
    const store = await openAlone(url, FILLED);
    t.after(() => store.close());
    return store;
  };
  const [owner, fresh] = [await alone(), await alone()];
  // Long ones, so that they are few: each deletion waits for three epochs.
  await assert.rejects(owner.setMany(records(10_000)), { code: 'SW_POOL_FULL' });
  leaveNothing(t);
  assert.equal(await fresh.deleteMany(numbered('', 100)), 100);
  await fresh.clear();
  assert.equal(await fresh.size(), 0);
  assert.deepEqual((await check(url)).problems, []);
});

/** A key in the same bucket and with the same signature, as long as this one. */
function similarKey(client: Client, key: string): string {
  const { pairs, hash } = { ...client.index.table, hash: requestFor(client, key).hash };
  const { geometry } = pairs[0];
  for (let i = 0; ; i++) {
    const other = `${i}`.padStart(key.length, 'x');
    const { h1, h2 } = requestFor(client, other).hash;
    const isSimilar = geometry.bucketOf({ h1 }) === geometry.bucketOf(hash);
    if (isSimilar && signatureOf(h2) === signatureOf(hash.h2)) return other;
  }
}

test("a removal by a record whose block is another key's by now removes nothing", (t) => {
  const client = newClient(t, SIZES, { shape: SHAPE });
  const { index, pool } = client;
  put(client, 'there now', 'value');
  const found = requestFor(client, 'there now');
  assert.ok(pool.run(index.search(found)));
  const removed = requestFor(client, similarKey(client, 'there now'));
  removed.record.isPosted = true;
  removed.slotLow = found.slotLow;
  removed.slotHigh = found.slotHigh;
  const asked = { operation: OP_REMOVE_FOUND, condition: ALWAYS, expectedVersion: 0 } as const;
  const { table } = index;
  const reply = pool.run(callHashServer(table, table.pairOf(removed), removed, asked));
  assert.equal(reply.outcome, REFUSED);
  assert.equal(get(client, 'there now'), 'value');
});

test('a bucket that is full when each chunk holds records gets another one behind it', (t) => {
  const store = freshStore(t, 'memory', FILLED);
  const looking = newClient(t, { handle: store.handle });
  looking.pool.rest();
  const { geometry } = looking.index.table.pairs[0];
  const bucketOf = (key: string) => geometry.bucketOf(requestFor(looking, key).hash);
  const inBucket = new Map<number, number>();
  const chosen = bucketOf('0');
  const inChosen = numbered('', 20_000).filter((key) => bucketOf(key) === chosen);
  const keys: string[] = [];
  const value = 'v'.repeat(1000);
  // No bucket gets more keys than it has slots, and the one of the first key gets none.
  const fillPool = () => {
    for (const key of numbered('', 20_000)) {
      const bucket = bucketOf(key);
      const count = inBucket.get(bucket) ?? 0;
      if (bucket === chosen || count === SLOTS) continue;
      store.set(key, value);
      keys.push(key);
      inBucket.set(bucket, count + 1);
    }
  };
  assert.throws(fillPool, { code: 'SW_POOL_FULL' });
  store.deleteMany(keys.filter((_, i) => i % 2 === 0));
  assert.ok(inChosen.length > SLOTS);
  for (const key of inChosen.slice(0, SLOTS + 1)) store.set(key, value);
  for (const key of inChosen.slice(0, SLOTS + 1)) assert.equal(store.get(key), value);
  assert.deepEqual(checkSync(store.handle).problems, []);
});
