import assert from 'node:assert/strict';
import { test } from 'node:test';
import { control } from '../../../pool/control.ts';
import {
  type ByHand,
  type ByHandOptions,
  clientOf,
  foundText,
  requestFor,
  traced,
} from '../../../store/tests/support/by-hand.ts';
import { numbered, type Scope } from '../../../store/tests/support/pools.ts';
import { Batch, type Operation } from '../../../verbs/index.ts';
import { fingerprintOf } from '../../chime/geometry.ts';
import { depthFlags } from '../../chime/link.ts';
import { ALWAYS, IF_PRESENT, INSERTED, REPLACED } from '../../contract.ts';
import { HOPSCOTCH, type HopscotchIndex } from '../hopscotch.ts';

type Client = ByHand<HopscotchIndex>;

/** A client within an epoch, in which it remembers the directory. */
function hopscotchByHand(scope: Scope, options: ByHandOptions = {}): Client {
  const client = clientOf<HopscotchIndex>(HOPSCOTCH, scope, options.hopscotch ?? {}, options);
  client.pool.enter();
  scope.after(() => client.pool.exit());
  return client;
}

function insertion(client: Client, key: string): Operation<number> {
  return client.index.write(requestFor(client, key, `${key} one`), ALWAYS);
}

function textOf(client: Client, key: string): string | undefined {
  const request = requestFor(client, key);
  return client.pool.run(client.index.search(request)) ? foundText(request) : undefined;
}

function problemsOf({ pool, index }: Client): { problems: string[]; records: number } {
  const problems: string[] = [];
  const reached = new Set<number>();
  const records = pool.run(
    index.check({
      problem: (text) => problems.push(text),
      reachable: (address) => {
        if (reached.has(address)) problems.push(`block ${address} is reached twice`);
        reached.add(address);
      },
      progress: () => {},
    }),
  );
  return { problems, records };
}

test('search 2, insert 3, update 3, delete 3 round trips; a batch of searches 2', (t) => {
  const client = hopscotchByHand(t);
  const { pool, index } = client;
  const { allocator } = pool;
  pool.run(allocator.refill(allocator.sizeClass(index.catalog, 1)));
  const seen = new Set<number>();
  const keys = numbered('key ', 200).filter((key) => {
    const { hash } = requestFor(client, key);
    const print = fingerprintOf(hash.h1);
    // No two share a fingerprint, and no neighbourhood goes over the end.
    if (seen.has(print) || index.table.geometry.homeOf(hash.h2) > 64 - 16) return false;
    return seen.add(print);
  });
  pool.run(index.search(requestFor(client, 'nothing')));
  const trips = <T>(operation: Operation<T>) => traced(pool.fabric, operation).trips;
  const some = keys.slice(0, 20);
  for (const key of some) {
    assert.deepEqual(trips(insertion(client, key)), ['READ WRITE', 'CAS READ', 'CAS']);
  }
  const requests = some.map((key) => requestFor(client, key));
  for (const request of requests) assert.deepEqual(trips(index.search(request)), ['READ', 'READ']);
  const found: boolean[] = [];
  assert.equal(trips(index.searchMany(requests, 20, new Batch(), found)).length, 2);
  assert.ok(found.every(Boolean));
  for (const key of some) {
    const update = index.write(requestFor(client, key, 'two'), IF_PRESENT);
    assert.deepEqual(trips(update), ['READ WRITE', 'READ', 'WRITE CAS']);
  }
  for (const key of some) {
    assert.deepEqual(trips(index.remove(requestFor(client, key))), ['READ', 'READ', 'CAS']);
  }
  assert.ok(Object.values(index.retries).every((count) => count === 0));
});

test('who remembers nothing reads the directory first, whatever its depth', (t) => {
  const writer = hopscotchByHand(t, { hopscotch: { span: 8, neighbourhood: 4 } });
  for (const key of numbered('key ', 300)) writer.pool.run(insertion(writer, key));
  const reader = hopscotchByHand(t, { handle: writer.handle });
  const { pool, index } = reader;
  const first = traced(pool.fabric, index.search(requestFor(reader, 'key 7')));
  assert.deepEqual(first.trips, ['READ', 'READ', 'READ', 'READ']);
  const second = traced(pool.fabric, index.search(requestFor(reader, 'key 8')));
  assert.deepEqual(second.trips, ['READ', 'READ']);
});

test('a client that is many splits behind finds everything, and so does a walk', (t) => {
  const shape = { span: 4, neighbourhood: 2 };
  const writer = hopscotchByHand(t, { hopscotch: shape });
  const reader = hopscotchByHand(t, { handle: writer.handle });
  const keys = numbered('key ', 500);
  assert.equal(textOf(reader, 'key 0'), undefined);
  for (const key of keys) assert.equal(writer.pool.run(insertion(writer, key)), INSERTED);
  assert.ok(writer.index.resizes.splits > 100);
  for (const key of keys) assert.equal(textOf(reader, key), `${key} one`);
  const { pool, index } = reader;
  const met: string[] = [];
  // By cursors alone: nothing is remembered between two pages.
  let cursor = 0;
  do {
    const walk = index.walk(cursor);
    pool.run(walk.next((request) => met.push(foundText(request))));
    cursor = walk.cursor;
  } while (cursor !== 0);
  assert.deepEqual(met.sort(), keys.map((key) => `${key} one`).sort());
  assert.throws(() => index.walk(2 ** 40), { code: 'SW_INVALID_ARGUMENT' });
  assert.deepEqual(problemsOf(reader), { problems: [], records: 500 });
  const { subtables, records, globalDepth } = pool.run(index.shape());
  assert.ok(subtables <= 2 ** globalDepth && records === 500);
});

test('of a batch of searches each looks whether its own link may be old', (t) => {
  const client = hopscotchByHand(t, { hopscotch: { initialDepth: 1 } });
  const { pool, index } = client;
  const { directory } = index.table;
  // Of one segment, so of one place in what is remembered.
  const keys = numbered('key ', 50).filter((key) => (requestFor(client, key).hash.h1 & 1) === 0);
  for (const key of keys) pool.run(insertion(client, key));
  const [first, second] = keys.map((key) => requestFor(client, key));
  pool.exit();
  pool.run(pool.reclamation.goOffline());
  pool.run(pool.reclamation.advanceBeyond(pool.run(pool.reclamation.readEpoch())));
  pool.run(pool.reclamation.quiesce());
  pool.enter();
  // The second key's place was read while a split was half done, and has to be looked up.
  const { lookup } = directory;
  let unknown = true;
  directory.lookup = (hash) =>
    hash === second.hash.h1 && unknown ? -1 : lookup.call(directory, hash);
  const { find } = directory;
  directory.find = function* (hash) {
    unknown = false;
    return yield* find.call(directory, hash);
  };
  const operation = index.searchMany([first, second], 2, new Batch(), []);
  for (let step = operation.next(); !step.done && unknown; step = operation.next()) {
    pool.fabric.execute(step.value);
  }
  assert.ok(first.checked, 'the link may lead to a block that holds something else by now');
  operation.return();
});

test('a table that may not grow says that it is full, and loses nothing', (t) => {
  const shape = { span: 4, neighbourhood: 4, initialDepth: 0, maxDepth: 1 };
  const client = hopscotchByHand(t, { hopscotch: shape });
  const { pool, index } = client;
  const stored: string[] = [];
  let refused = '';
  for (const key of numbered('key ', 30)) {
    try {
      pool.run(insertion(client, key));
      stored.push(key);
    } catch (error) {
      assert.equal((error as { code: string }).code, 'SW_INDEX_FULL');
      refused = key;
    }
  }
  assert.equal(stored.length, 8);
  for (const key of stored) assert.equal(textOf(client, key), `${key} one`);
  assert.equal(textOf(client, refused), undefined);
  // What is there can be changed, and room that comes free is used.
  assert.equal(pool.run(index.write(requestFor(client, stored[0], 'two'), ALWAYS)), REPLACED);
  for (const key of stored) assert.ok(pool.run(index.remove(requestFor(client, key))));
  assert.equal(pool.run(insertion(client, refused)), INSERTED);
  assert.deepEqual(problemsOf(client), { problems: [], records: 1 });
});

const SHAPE = { span: 4, neighbourhood: 2, initialDepth: 0 };
const KEYS = Array.from({ length: 14 }, (_, i) => `key ${i}`);

/** Executes so many verbs of an operation, and no more; how many it did, when it ended before. */
function stopAfter({ pool }: Client, operation: Operation<number>, verbs: number): number {
  for (let left = verbs; left > 0; ) {
    const step = operation.next();
    if (step.done) return verbs - left;
    const batch = step.value;
    const whole = batch.length;
    batch.length = Math.min(left, whole);
    left -= batch.length;
    pool.fabric.execute(batch);
    batch.length = whole;
  }
  return verbs;
}

/** Which of the insertions, by one client, split a segment. */
function splitting(scope: Scope): number[] {
  const client = hopscotchByHand(scope, { hopscotch: SHAPE });
  return KEYS.flatMap((key, i) => {
    const before = client.index.resizes.splits;
    client.pool.run(insertion(client, key));
    return client.index.resizes.splits > before ? [i] : [];
  });
}

test('a writer may stop for good after any verb of an insertion that splits', (t) => {
  const insertions = splitting(t);
  assert.ok(insertions.length >= 3, `${insertions.length} splits`);
  for (const last of insertions.slice(0, 3)) {
    for (let verbs = 0; ; verbs++) {
      const writer = hopscotchByHand(t, { hopscotch: SHAPE });
      const others = [0, 1].map(() => hopscotchByHand(t, { handle: writer.handle }));
      const present = KEYS.slice(0, last);
      for (const key of present) writer.pool.run(insertion(writer, key));
      // One of the others remembers the directory as it was.
      for (const key of present) assert.equal(textOf(others[0], key), `${key} one`);
      const done = stopAfter(writer, insertion(writer, KEYS[last]), verbs);
      for (const other of others) {
        for (const key of present) assert.equal(textOf(other, key), `${key} one`);
      }
      for (const key of KEYS.slice(last)) others[1].pool.run(insertion(others[1], key));
      for (const key of KEYS) assert.equal(textOf(others[0], key), `${key} one`);
      assert.deepEqual(problemsOf(others[0]), { problems: [], records: KEYS.length });
      if (done < verbs) break;
    }
  }
});

test('a link with more suffix bits than there can be is damage, and no size', (t) => {
  const { pool, index } = hopscotchByHand(t, { hopscotch: { maxDepth: 8 } });
  const { directory } = index.table;
  pool.run(directory.ensureLoaded());
  const { bytes } = directory;
  const link = { low: 64, high: depthFlags(31) };
  assert.throws(() => directory.learn(0, link), { code: 'SW_POOL_CORRUPT' });
  assert.equal(directory.bytes, bytes);
});

test('a link that stays deeper than the directory ends the loading of it', (t) => {
  const { pool, index, handle } = hopscotchByHand(t, { hopscotch: { maxDepth: 8 } });
  const found = pool.run(index.table.directory.find(0));
  assert.ok(found);
  const high = BigInt((found.high | depthFlags(5)) >>> 0);
  pool.run(control.store(found.owner, (high << 32n) | BigInt(found.low >>> 0)));
  const other = hopscotchByHand(t, { handle });
  const loading = () => other.pool.run(other.index.table.directory.ensureLoaded());
  assert.throws(loading, { code: 'SW_POOL_CORRUPT' });
});
