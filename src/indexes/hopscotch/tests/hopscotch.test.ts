import assert from 'node:assert/strict';
import { test } from 'node:test';
import { control } from '../../../pool/control.ts';
import { LocalPool } from '../../../pool/local-pool.ts';
import { attachInMemory, poolOf } from '../../../store/places/pool-place.ts';
import {
  type ByHand,
  type ByHandOptions,
  checked,
  clientOf,
  foundText,
  requestFor,
  stopAfter,
  traced,
} from '../../../store/tests/support/by-hand.ts';
import { endAfter, numbered, type Scope } from '../../../store/tests/support/pools.ts';
import { Batch, type Operation } from '../../../verbs/index.ts';
import {
  ALWAYS,
  IF_ABSENT,
  IF_PRESENT,
  INSERTED,
  REFUSED,
  REPLACED,
  retriesOf,
} from '../../contract.ts';
import { walkOf } from '../../traversal/walk.ts';
import { HOPSCOTCH, type HopscotchIndex } from '../hopscotch.ts';

type Client = ByHand<HopscotchIndex>;

/** A client within an epoch. */
function hopscotchByHand(scope: Scope, options: ByHandOptions = {}): Client {
  const client = clientOf<HopscotchIndex>(HOPSCOTCH, scope, options.hopscotch ?? {}, options);
  client.pool.enter();
  scope.after(() => client.pool.exit());
  return client;
}

function insertion(client: Client, key: string, value = `${key} one`): Operation<number> {
  return client.index.write(requestFor(client, key, value), ALWAYS);
}

/** Adds to the value, if there is one. */
function modification(client: Client, key: string, more: string): Operation<number> {
  const { index } = client;
  const request = requestFor(client, key);
  return index.modify(request, (present) => {
    const value = `${present ? foundText(request) : ''}${more}`;
    index.records.encodeValue(request, value, 9);
  });
}

function textOf(client: Client, key: string): string | undefined {
  const request = requestFor(client, key);
  return client.pool.run(client.index.search(request)) ? foundText(request) : undefined;
}

/** Keys whose neighbourhoods do not go over the end, and with room for them without a hop. */
function plainKeys(client: Client): string[] {
  const { geometry } = client.index.table;
  return numbered('key ', 100)
    .filter((key) => geometry.homeOf(requestFor(client, key).hash.h2) <= 64 - 8)
    .slice(0, 20);
}

const NEIGHBOURHOOD = 'READ';
const SEARCH = 'READ READ READ READ';
const LOCK = 'WRITE CAS READ READ';
const UNLOCK = 'WRITE';
const UPDATE = 'WRITE WRITE WRITE';

test('a hit 1, a miss 2 at most, insert, update, delete 2 round trips; a batch of searches 1', (t) => {
  const client = hopscotchByHand(t);
  const { pool, index } = client;
  const some = plainKeys(client);
  const trips = <T>(operation: Operation<T>) => traced(pool.fabric, operation).trips;
  for (const key of some) {
    const [last, ...before] = trips(index.search(requestFor(client, key))).reverse();
    assert.equal(last, SEARCH, 'a miss');
    assert.ok(before.length === 0 || before.join() === NEIGHBOURHOOD);
    const [lock, change, ...rest] = trips(insertion(client, key));
    assert.deepEqual([lock, rest], [LOCK, []]);
    assert.match(change, /^WRITE( WRITE)*$/, 'intent, sequence, entry, hops, vacancy, …, owner');
  }
  const requests = some.map((key) => requestFor(client, key));
  for (const request of requests) assert.equal(trips(index.search(request)).length, 1);
  const found: boolean[] = [];
  assert.equal(trips(index.searchMany(requests, 20, new Batch(), found)).length, 1);
  assert.ok(found.every(Boolean));
  for (const key of some) {
    const two = requestFor(client, key, 'two');
    assert.deepEqual(trips(index.write(two, IF_PRESENT)), [LOCK, UPDATE]);
    assert.deepEqual(trips(index.write(requestFor(client, key, 'no'), IF_ABSENT)), [LOCK, UNLOCK]);
    assert.equal(textOf(client, key), 'two');
    assert.deepEqual(trips(modification(client, key, ' three')), [LOCK, UPDATE]);
    assert.equal(textOf(client, key), 'two three');
  }
  for (const key of some) {
    assert.equal(trips(index.remove(requestFor(client, key))).length, 2);
    assert.equal(textOf(client, key), undefined);
  }
  assert.ok(Object.values(retriesOf(index)).every((count) => count === 0));
});

test('a search READs only the neighbourhood while misses are few', (t) => {
  const client = hopscotchByHand(t);
  const [key] = plainKeys(client);
  client.pool.run(insertion(client, key));
  const { trips } = traced(client.pool.fabric, client.index.search(requestFor(client, key)));
  assert.deepEqual(trips, [NEIGHBOURHOOD]);
});

test('items that do not fit cost a search one READ more, and move out and back', (t) => {
  const client = hopscotchByHand(t);
  const { pool, index } = client;
  const [key] = plainKeys(client);
  const trips = <T>(operation: Operation<T>) => traced(pool.fabric, operation).trips.length;
  for (const value of ['short', 'long '.repeat(40), 'short again', 'l'.repeat(40_000), 's']) {
    pool.run(insertion(client, key, value));
    const request = requestFor(client, key);
    assert.equal(trips(index.search(request)), value.length < 48 ? 1 : 2);
    pool.run(index.search(request));
    pool.run(index.records.complete(request));
    assert.equal(foundText(request), value);
    if (value.length > 4000) continue;
    pool.run(modification(client, key, '!'.repeat(40)));
    assert.equal(textOf(client, key), value + '!'.repeat(40));
  }
  assert.equal(pool.run(index.remove(requestFor(client, key))), true);
  assert.deepEqual(checked(client), { problems: [], records: 0 });
});

test('a client that is many splits behind finds everything, and so does a walk', (t) => {
  const shape = { span: 4, neighbourhood: 2 };
  const writer = hopscotchByHand(t, { hopscotch: shape });
  const reader = hopscotchByHand(t, { handle: writer.handle });
  const keys = numbered('key ', 500);
  assert.equal(textOf(reader, 'key 0'), undefined);
  for (const key of keys) assert.equal(writer.pool.run(insertion(writer, key)), INSERTED);
  assert.ok(writer.index.counters.splits > 100);
  for (const key of keys) assert.equal(textOf(reader, key), `${key} one`);
  const { pool, index } = reader;
  const met: string[] = [];
  // By cursors alone: nothing is remembered between two pages.
  let cursor = 0;
  do {
    const walk = walkOf(index, cursor);
    pool.run(walk.next((request) => met.push(foundText(request))));
    cursor = walk.cursor;
  } while (cursor !== 0);
  assert.deepEqual(met.sort(), keys.map((key) => `${key} one`).sort());
  assert.throws(() => walkOf(index, 2 ** 40), { code: 'SW_INVALID_ARGUMENT' });
  assert.deepEqual(checked(reader), { problems: [], records: 500 });
  const { subtables, records, globalDepth } = pool.run(index.shape());
  assert.ok(subtables <= 2 ** globalDepth && records === 500);
});

const SHAPES: Record<string, number>[] = [{}, { inlineBytes: 0 }, { span: 100, neighbourhood: 16 }];
for (const shape of SHAPES) {
  test(`hops and splits with ${JSON.stringify(shape)} leave every item where it is found`, (t) => {
    const client = hopscotchByHand(t, { hopscotch: shape });
    const { pool, index } = client;
    const keys = numbered('key ', 1500);
    for (const key of keys) pool.run(insertion(client, key));
    const gone = keys.filter((_, i) => i % 3 === 0);
    for (const key of gone) assert.ok(pool.run(index.remove(requestFor(client, key))));
    for (const key of gone) assert.equal(pool.run(insertion(client, key, 'again')), INSERTED);
    for (const key of keys) {
      assert.equal(textOf(client, key), gone.includes(key) ? 'again' : `${key} one`);
    }
    assert.ok(
      index.counters.splits > 10 && index.counters.hops > 50,
      JSON.stringify(index.counters),
    );
    assert.deepEqual(checked(client), { problems: [], records: keys.length });
  });
}

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
  assert.deepEqual(checked(client), { problems: [], records: 1 });
});

test('a writer that waits for a living holder gives up, and nothing has happened', (t) => {
  const holder = hopscotchByHand(t);
  const writer = hopscotchByHand(t, { handle: holder.handle });
  const operation = insertion(holder, 'key', 'held');
  const { value: lock } = operation.next();
  holder.pool.fabric.execute(lock as Batch);
  lookEachMillisecond(writer);
  writer.index.configure({ lockTimeoutMs: 20 });
  assert.throws(() => writer.pool.run(insertion(writer, 'key', 'other')), {
    code: 'SW_CONTENTION',
    message: /client 1 is alive and has held the lock .* for 20 ms.*lockTimeoutMs/,
  });
  // What the holder has not begun to write is no obstacle to a search.
  assert.equal(textOf(writer, 'key'), undefined);
  for (let step = operation.next(); !step.done; step = operation.next()) {
    holder.pool.fabric.execute(step.value);
  }
  assert.equal(textOf(writer, 'key'), 'held');
  assert.equal(writer.pool.run(lateInsertion(writer)), REFUSED);
});

/** Its timer goes on by a millisecond whenever it is read. */
function lookEachMillisecond({ pool }: Client): void {
  let now = 0;
  pool.timer.now = () => now++;
}

function lateInsertion(client: Client): Operation<number> {
  return client.index.write(requestFor(client, 'key', 'late'), IF_ABSENT);
}

test('a search of a hot key READs one entry, and after a wrong speculation its neighbourhood', (t) => {
  const client = hopscotchByHand(t);
  client.index.configure({ hotspots: 64 });
  // Misses are many: what proves one is read at once.
  for (const key of numbered('absent ', 64)) textOf(client, key);
  const { pool, index } = client;
  const keys = numbered('key ', 20);
  for (const key of keys) pool.run(insertion(client, key));
  for (const key of keys) pool.run(index.search(requestFor(client, key)));
  const trips = (key: string) =>
    traced(pool.fabric, index.search(requestFor(client, key))).trips.map((trip) => trip === 'READ');
  for (const key of keys) {
    assert.deepEqual(trips(key), [true]);
    pool.run(index.remove(requestFor(client, key)));
    assert.deepEqual(trips(key), [true, false]);
    assert.deepEqual(trips(key), [false], 'it is forgotten');
  }
});

const SHAPE = { span: 4, neighbourhood: 2, initialDepth: 0 };
const KEYS = Array.from({ length: 14 }, (_, i) => `key ${i}`);

/** The operations of a client count as those of one that is gone. */
function isGoneFor(client: Client, dead: Client): void {
  const { id } = dead.pool.membership;
  client.pool.membership.liveness = (row) => (row.id === id ? 'gone' : 'alive');
  client.index.table.patience = { spins: 0, polls: 1, microseconds: 1 };
}

const CHANGES: Record<string, (client: Client) => Operation<unknown>> = {
  'an insertion': (client) => insertion(client, 'new'),
  'an update': (client) => insertion(client, KEYS[1], 'two'),
  'an update by a record': (client) => insertion(client, KEYS[1], 'two'.repeat(40)),
  'a removal': (client) => client.index.remove(requestFor(client, KEYS[1])),
};

for (const [name, change] of Object.entries(CHANGES)) {
  test(`a writer may die after any verb of ${name}: all of it happens, or nothing`, (t) => {
    const seen = new Set<string>();
    for (let verbs = 0; ; verbs++) {
      const writer = hopscotchByHand(t, { hopscotch: SHAPE });
      const others = [0, 1].map(() => hopscotchByHand(t, { handle: writer.handle }));
      for (const key of KEYS.slice(0, 6)) writer.pool.run(insertion(writer, key));
      const done = stopAfter(writer, change(writer), verbs);
      for (const other of others) isGoneFor(other, writer);
      // Hits go on beside a dead holder; the misses among these make the first client repair.
      const states = others.map((other) => [...KEYS, 'new'].map((key) => textOf(other, key)));
      seen.add(JSON.stringify(states[1]));
      for (const key of KEYS) others[1].pool.run(insertion(others[1], key, 'late'));
      for (const key of KEYS) assert.equal(textOf(others[0], key), 'late');
      assert.deepEqual(checked(others[0]).problems, []);
      if (done < verbs) break;
    }
    assert.equal(seen.size, 2, 'before and after');
  });
}

test('a splitter may die after any verb, and its repairer too', (t) => {
  for (let last = 3; last < 9; last++) {
    for (let verbs = 0; ; verbs += 3) {
      const writer = hopscotchByHand(t, { hopscotch: SHAPE });
      const [repairer, reader] = [0, 1].map(() => hopscotchByHand(t, { handle: writer.handle }));
      const present = KEYS.slice(0, last);
      for (const key of present) writer.pool.run(insertion(writer, key));
      const done = stopAfter(writer, insertion(writer, KEYS[last]), verbs);
      isGoneFor(repairer, writer);
      stopAfter(repairer, insertion(repairer, KEYS[0], 'two'), verbs % 29);
      const { id } = repairer.pool.membership;
      isGoneFor(reader, writer);
      const { liveness } = reader.pool.membership;
      reader.pool.membership.liveness = (row) => (row.id === id ? 'gone' : liveness(row));
      for (const key of present.slice(1)) assert.equal(textOf(reader, key), `${key} one`);
      assert.match(textOf(reader, KEYS[0]) ?? '', /one|two/);
      for (const key of KEYS.slice(last)) reader.pool.run(insertion(reader, key));
      for (const key of KEYS.slice(1)) assert.equal(textOf(reader, key), `${key} one`);
      assert.deepEqual(checked(reader), { problems: [], records: KEYS.length });
      if (done < verbs) break;
    }
  }
});

/** Steps operations of one client in turn, as a network has them in flight; their outcomes. */
function together({ pool }: Client, operations: Operation<number>[]): number[] {
  const outcomes: number[] = [];
  let going = operations.map((operation, i) => ({ operation, i }));
  while (going.length > 0) {
    const batches = going.map(({ operation, i }) => {
      const step = operation.next();
      if (step.done) outcomes[i] = step.value;
      return step.done ? undefined : step.value;
    });
    for (const batch of batches) if (batch !== undefined) pool.fabric.execute(batch);
    going = going.filter((_, n) => batches[n] !== undefined);
  }
  return outcomes;
}

test('of many writes in flight on few full leaves one splits each, and the others wait', (t) => {
  const client = hopscotchByHand(t, { hopscotch: { span: 6, neighbourhood: 3, initialDepth: 0 } });
  const keys = numbered('key ', 400);
  const outcomes = together(
    client,
    keys.map((key) => insertion(client, key)),
  );
  assert.ok(outcomes.length === 400 && outcomes.every((outcome) => outcome === INSERTED));
  const { counters } = client.index;
  const { splits, leafFull, locked } = counters;
  assert.ok(splits > 50 && leafFull < 2 * splits, JSON.stringify(counters));
  assert.equal(locked, 0, 'no operation is in the way of another');
  assert.deepEqual(checked(client), { problems: [], records: 400 });
});

test('writes that wait for a stuck leaf leave the slots to writes on others', (t) => {
  const holder = hopscotchByHand(t);
  const client = hopscotchByHand(t, { handle: holder.handle });
  const { pool, index } = client;
  const keys = numbered('key ', 40);
  const leafOf = (key: string) => index.table.directory.lookup(requestFor(client, key).hash.h1);
  const stuck = keys.filter((key) => leafOf(key) === leafOf(keys[0]));
  const others = keys.filter((key) => leafOf(key) !== leafOf(keys[0]));
  assert.ok(stuck.length > 8 && others.length > 8);
  const held = insertion(holder, keys[0], 'held');
  holder.pool.fabric.execute(held.next().value as Batch);
  index.table.patience = { spins: 0, polls: 1, microseconds: 1 };
  lookEachMillisecond(client);
  const waiting = stuck.map((key) => insertion(client, key));
  for (const operation of waiting) pool.fabric.execute(operation.next().value as Batch);
  for (const key of others) assert.equal(pool.run(insertion(client, key)), INSERTED);
  // All that waited learn of it when the first has lost its patience, and nothing has happened.
  const failures = waiting.map((operation) => {
    try {
      return pool.run(operation);
    } catch (error) {
      return (error as { code: string }).code;
    }
  });
  assert.ok(
    failures.every((code) => code === 'SW_CONTENTION'),
    String(failures),
  );
  const { locked } = index.counters;
  assert.ok(locked > 900 && locked < 1100, `the others have not tried it, too: ${locked} looks`);
  for (let step = held.next(); !step.done; step = held.next())
    holder.pool.fabric.execute(step.value);
  assert.equal(textOf(client, keys[0]), 'held');
  for (const key of stuck.slice(1)) assert.equal(textOf(client, key), undefined);
  for (const key of stuck.slice(1)) assert.equal(pool.run(insertion(client, key)), INSERTED);
});

for (const late of [1, 2, 3])
  test(`a walk throws a segment away that is split before READ ${late}`, (t) => {
    const splitter = hopscotchByHand(t, {
      hopscotch: { span: 8, neighbourhood: 2, initialDepth: 0 },
    });
    const reader = hopscotchByHand(t, { handle: splitter.handle });
    const keys: string[] = [];
    const { pool, index } = splitter;
    for (let i = 0; index.counters.splits === 0; i++) {
      const walk = walkOf(reader.index);
      const met: string[] = [];
      const reading = walk.next((request) => met.push(foundText(request)));
      const batch = reading.next().value as Batch;
      reader.pool.fabric.execute(batch);
      const before = index.counters.splits;
      keys.push(`key ${i}`);
      pool.run(insertion(splitter, keys[i]));
      if (index.counters.splits === before) continue;
      // The sequence was read before the split, and what comes behind READ by READ after it.
      const behind = new Batch();
      for (let i = late; i < batch.length; i++) {
        behind.read(batch.address[i], batch.bytes[i], batch.scratch[i], batch.offset[i]);
      }
      reader.pool.fabric.execute(behind);
      reader.pool.run(reading);
      while (!walk.done) reader.pool.run(walk.next((request) => met.push(foundText(request))));
      assert.equal(new Set(met).size, met.length, 'a key comes twice');
      assert.deepEqual(met.sort(), keys.map((key) => `${key} one`).sort());
    }
  });

/** A client that died with its whole intent written, and others that know. */
function deadHolder(scope: Scope): { dead: Client; others: Client[] } {
  const dead = hopscotchByHand(scope, { hopscotch: SHAPE });
  const others = [0, 1].map(() => hopscotchByHand(scope, { handle: dead.handle }));
  const operation = insertion(dead, 'key', 'of the dead');
  dead.pool.fabric.execute(operation.next().value as Batch);
  const change = operation.next().value as Batch;
  change.length = 1;
  dead.pool.fabric.execute(change);
  for (const other of others) isGoneFor(other, dead);
  return { dead, others };
}

function rowIds({ pool }: { pool: LocalPool }): number[] {
  return pool.run(pool.membership.rows()).map(({ id }) => id);
}

test('a row that cannot be settled now is not claimed: the next client cleans it up', (t) => {
  const { dead, others } = deadHolder(t);
  const [repairer, late] = others;
  const { id } = dead.pool.membership;
  const leaf = repairer.index.table.directory.lookup(requestFor(repairer, 'key').hash.h1);
  const update = insertion(repairer, 'key', 'two');
  for (;;) {
    repairer.pool.fabric.execute(update.next().value as Batch);
    const word = Number(late.pool.run(control.load(leaf)) >> 32n);
    if ((word & 0xfff) === repairer.pool.membership.id) break;
  }
  // The repair is under way, and its client stands still. A client that cleans up a row lives.
  late.pool.membership.liveness = (row) => (row.id === id && row.live ? 'gone' : 'alive');
  assert.throws(() => late.pool.recoverGone(), { code: 'SW_CONTENTION' });
  for (let step = update.next(); !step.done; step = update.next()) {
    repairer.pool.fabric.execute(step.value);
  }
  late.pool.recoverGone();
  assert.ok(!rowIds(late).includes(id));
  assert.equal(textOf(late, 'key'), 'two');
});

test('a client that joins does what a dead one was about to, once it has a row', (t) => {
  const { dead, others } = deadHolder(t);
  const { id } = dead.pool.membership;
  const memory = poolOf(dead.handle);
  assert.ok(typeof memory === 'object');
  const { fabric, parameters, source } = attachInMemory(memory);
  const joiner = new LocalPool(fabric, parameters, source);
  endAfter(t, joiner, (pool) => pool.close());
  joiner.membership.liveness = (row) => (row.id === id ? 'gone' : 'alive');
  joiner.join('a client');
  const living = others.map(({ pool }) => pool.membership.id);
  assert.deepEqual(rowIds({ pool: joiner }).sort(), [...living, joiner.membership.id].sort());
  assert.equal(textOf(others[0], 'key'), 'of the dead');
  assert.deepEqual(checked(others[0]), { problems: [], records: 1 });
});
