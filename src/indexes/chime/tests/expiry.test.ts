import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALWAYS, IF_PRESENT, INSERTED, REFUSED } from '../../contract.ts';
import { type Client, checked, clientOf, requestFor } from './support/client.ts';

const START = 1_700_000_000_000;
const SPAN = 1000;

/** A client of a tree, by a clock that the test moves. */
function timed(t: Parameters<typeof clientOf>[0], time: { now: number }): Client {
  const client = clientOf(t, { span: 4, neighbourhood: 4, inlineBytes: 40 });
  Object.assign(client.pool.clock, { now: () => time.now });
  return client;
}

function put({ pool, index }: Client, key: string, value: string, sliding = true) {
  const request = index.newRequest();
  const expiry = { deadline: sliding ? SPAN : START + SPAN, sliding };
  index.records.encode(request, key, value, 1, expiry);
  return pool.run(index.write(request, ALWAYS));
}

function found(client: Client, key: string) {
  const request = requestFor(client, key);
  assert.ok(client.pool.run(client.index.search(request)));
  return request;
}

/** Another key with the same home. */
function besides(client: Client, key: string): string {
  const home = (one: string) => {
    return client.index.tree.geometry.homeOf(requestFor(client, one).hash.h2);
  };
  for (let i = 0; ; i++) if (home(`${i}`) === home(key)) return `${i}`;
}

test('an access counts for the item that was read, and for no other that has its place', (t) => {
  const time = { now: START };
  const client = timed(t, time);
  const { pool, index } = client;
  assert.equal(put(client, 'a', '1'), INSERTED);
  time.now += 500;
  const read = found(client, 'a');
  assert.ok(read.found.isInline && index.records.slides(read));
  // Where it stood there is another item by the time its access is noted.
  const { entry } = read;
  assert.ok(pool.run(index.remove(requestFor(client, 'a'))));
  const other = besides(client, 'a');
  put(client, other, '2', false);
  assert.equal(found(client, other).entry, entry);
  pool.run(index.records.touch(read));
  assert.equal(found(client, other).foundExpiresAt, START + SPAN);
  assert.equal(
    Buffer.from(read.found.memory.u8.subarray(read.found.contentAt)).toString('latin1', 0, 1),
    '1',
  );
  // One that stands where it stood, but was written since, has a time of its own.
  put(client, 'a', '3');
  const older = found(client, 'a');
  time.now += 100;
  put(client, 'a', '4');
  time.now += 100;
  pool.run(index.records.touch(older));
  assert.equal(found(client, 'a').foundExpiresAt, time.now - 100 + SPAN);
  const last = found(client, 'a');
  pool.run(index.records.touch(last));
  assert.equal(found(client, 'a').foundExpiresAt, time.now + SPAN);
  assert.equal(found(client, 'a').found.version, last.found.version, 'no write');
  assert.deepEqual(checked(client), { problems: [], records: 2 });
});

test('an expired item is absent to writers, in 2 round trips as any other', (t) => {
  const time = { now: START };
  const client = timed(t, time);
  const { pool, index } = client;
  put(client, 'a', '1', false);
  const { version: foundVersion } = found(client, 'a').found;
  time.now += SPAN;
  assert.ok(index.records.isExpired(found(client, 'a')));
  const before = pool.fabric.traffic.snapshot().roundTrips;
  assert.equal(put(client, 'a', '2', false), INSERTED);
  assert.equal(pool.fabric.traffic.snapshot().roundTrips - before, 2);
  assert.notEqual(found(client, 'a').found.version, foundVersion);
  assert.equal(pool.run(index.write(requestFor(client, 'a', '3'), IF_PRESENT)), REFUSED);
  assert.equal(pool.run(index.remove(requestFor(client, 'a'))), false);
  assert.equal(checked(client).records, 0, 'taken out all the same');
});
