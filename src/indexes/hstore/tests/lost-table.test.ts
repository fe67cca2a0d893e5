import assert from 'node:assert/strict';
import { test } from 'node:test';
import { control } from '../../../pool/control.ts';
import { CHUNK_SPAN, unpackChunk } from '../../../pool/memory/chunk-word.ts';
import { requestFor, Stepped } from '../../../store/tests/support/by-hand.ts';
import { numbered } from '../../../store/tests/support/pools.ts';
import type { Operation } from '../../../verbs/index.ts';
import { ALWAYS } from '../../contract.ts';
import { SEGMENT_BUCKETS, segmentBuckets } from '../protocol/geometry.ts';
import { readState } from '../protocol/pair-state.ts';
import { BUCKET_BYTES } from '../protocol/slot.ts';
import { restoreTable } from '../recovery/rebuild-table.ts';
import { catchUp } from '../skiplist-server/skiplist-server.ts';
import { type Client, get, getting, newClient, put, SHAPE, scanned } from './support/clients.ts';

const KEYS = numbered('key ', 60).sort();
const LONG_KEY = 'L'.repeat(30_000);
const STEPS_MAX = 3000;

/** Values by key: replaced, deleted, inserted again, one with a key longer than a block. */
function fill(client: Client): Map<string, string> {
  const values = new Map<string, string>();
  const store = (key: string, value: string) => {
    put(client, key, value);
    values.set(key, value);
  };
  for (const key of KEYS) store(key, 'old');
  for (const key of KEYS.slice(0, 40)) store(key, `of ${key}`);
  for (const key of KEYS.slice(30, 50)) {
    assert.ok(client.pool.run(client.index.remove(requestFor(client, key))));
    values.delete(key);
  }
  for (const key of KEYS.slice(45, 48)) store(key, 'again');
  store(LONG_KEY, 'x');
  store(LONG_KEY, 'y'.repeat(40_000));
  return values;
}

/** What a memory node does that comes back without its memory, as far as the table is concerned. */
function loseTable({ pool, index }: Client, buckets = SHAPE.buckets): void {
  const { geometry } = index.table.pairs[0];
  assert.equal(geometry.segments.length, 1);
  assert.ok(buckets <= segmentBuckets(geometry.buckets));
  const nothing = new Uint8Array(buckets * BUCKET_BYTES);
  pool.run(control.writeBytes(geometry.segments[0], nothing));
}

function verify(client: Client, values: ReadonlyMap<string, string>): void {
  for (const key of [...KEYS, LONG_KEY]) {
    assert.equal(client.pool.run(getting(client, key)), values.get(key), key.slice(0, 10));
  }
  assert.deepEqual(client.pool.run(scanned(client)), [...values.keys()].sort());
  client.pool.run(client.index.check({ problem: assert.fail, reachable() {}, progress() {} }));
}

function generationOf({ pool, index }: Client): number {
  return pool.run(readState(index.table.pairs[0])).table.generation;
}

for (const buckets of [1, SHAPE.buckets]) {
  test(`${buckets} lost buckets are built anew from the records, and from the skiplist`, (t) => {
    const client = newClient(t);
    const other = newClient(t, { handle: client.handle });
    const values = fill(client);
    const { skiplist } = client.index.table.pairs[0];
    loseTable(client, buckets);
    assert.equal(skiplist.applied, -1);
    verify(client, values);
    assert.equal(generationOf(client), 1);
    const { rebuilds } = skiplist;
    loseTable(client, buckets);
    verify(client, values);
    assert.equal(generationOf(client), 2);
    assert.equal(skiplist.rebuilds, rebuilds, 'the table came from the skiplist');
    // The other one knows the first table, which has all slots yet and is none any more.
    put(client, KEYS[0], 'new');
    values.set(KEYS[0], 'new');
    verify(other, values);
  });
}

/** What a client may be about when a bucket of its is none. */
const OPERATIONS: Record<string, (client: Client) => Operation<unknown>> = {
  get: (client) => getting(client, KEYS[0]),
  put: ({ index }) => index.write(requestFor({ index }, KEYS[0], 'new'), ALWAYS),
  walk: ({ index }) => index.check({ problem() {}, reachable() {}, progress() {} }),
  scan: scanned,
};

for (const [name, operation] of Object.entries(OPERATIONS)) {
  test(`${name}: a table that a sibling has loaded meanwhile is not taken for the lost one`, (t) => {
    for (let steps = 0; ; steps++) {
      const client = newClient(t);
      const other = newClient(t, { handle: client.handle });
      for (const key of KEYS.slice(0, 8)) put(client, key, 'v');
      loseTable(client);
      const slow = new Stepped(client.pool.fabric, operation(client));
      for (let i = 0; i < steps && !slow.done; i++) slow.step();
      // It builds the table itself, or has done so.
      const isLate = slow.done || client.index.table.pairs[0].holds;
      if (!isLate) for (const one of [other, client]) assert.ok(get(one, KEYS[1]));
      slow.finish();
      assert.equal(generationOf(client), 1, `after ${steps} steps`);
      if (isLate) break;
    }
  });
}

test('a write meets the lost table first', (t) => {
  const client = newClient(t);
  const values = fill(client);
  loseTable(client);
  put(client, KEYS[0], 'new');
  values.set(KEYS[0], 'new');
  verify(client, values);
});

test('whoever builds the table dies at any verb: the next one builds it', (t) => {
  for (const isScanned of [false, true]) {
    for (let step = 0; ; step++) {
      const client = newClient(t);
      const dying = newClient(t, { handle: client.handle });
      const values = fill(dying);
      if (isScanned) dying.pool.run(scanned(dying));
      loseTable(client);
      const restoring = new Stepped(dying.pool.fabric, restoreTable(dying.index.table.pairs[0], 0));
      for (let i = 0; i < step && !restoring.done; i++) restoring.step();
      if (restoring.done) break;
      restoring.dieAfter(Math.ceil(restoring.verbs / 2));
      bury(dying, client);
      verify(client, values);
    }
  }
});

/** The client's death is known to the other one. */
function bury(dead: Client, other: Client): void {
  const { membership } = other.pool;
  const { liveness } = membership;
  membership.liveness = (row) =>
    row.id === dead.pool.membership.id ? 'gone' : liveness.call(membership, row);
}

test('the table is lost, reads go to the skiplist server, which dies at any step', (t) => {
  let degraded = 0;
  for (let deadAfter = 0; ; deadAfter += 3) {
    const client = newClient(t);
    const hash = newClient(t, { handle: client.handle });
    const skiplist = newClient(t, { handle: client.handle });
    const values = fill(client);
    const servers = [
      { of: hash, server: hash.index.server({ role: 'hash' }) },
      { of: skiplist, server: skiplist.index.server({ role: 'skiplist' }) },
    ];
    for (const { of, server } of servers) of.pool.run(server.round());
    skiplist.pool.run(catchUp(skiplist.index.table.pairs[0]));
    loseTable(client);
    const keys = KEYS.slice(28, 33);
    const asked = new Stepped(client.pool.fabric, readAll(client, keys));
    const write = client.index.write(requestFor(client, KEYS[59], 'late'), ALWAYS);
    const written = new Stepped(client.pool.fabric, write);
    const rounds: (Stepped<unknown> | undefined)[] = [undefined, undefined];
    let steps = 0;
    for (; steps < deadAfter && !(asked.done && written.done); steps++) {
      servers.forEach(({ of, server }, i) => {
        rounds[i] ??= new Stepped(of.pool.fabric, server.round());
        if (rounds[i].done) rounds[i] = undefined;
        else rounds[i].step();
      });
      if (!asked.done) asked.step();
      if (!written.done) written.step();
      assert.ok(steps < STEPS_MAX, 'nobody gets ahead');
    }
    const died = !(asked.done && written.done);
    if (died) for (const { of } of servers) bury(of, client);
    const found = asked.finish();
    written.finish();
    values.set(KEYS[59], 'late');
    assert.deepEqual(
      found,
      keys.map((key) => values.get(key)),
    );
    degraded += client.index.counters.degraded;
    if (!died) break;
    verify(client, values);
  }
  assert.ok(degraded > 10, `${degraded} reads by the skiplist server`);
});

function* readAll(client: Client, keys: readonly string[]): Operation<(string | undefined)[]> {
  const found: (string | undefined)[] = [];
  for (const key of keys) found.push(yield* getting(client, key));
  return found;
}

// A server process works for itself too: what it builds as a client, it builds under its lease.
test('a server that gives up keeps its lease as long as it builds a table', (t) => {
  for (let before = 1; before < STEPS_MAX; before++) {
    const client = newClient(t);
    put(client, 'k', 'v');
    const [pair] = client.index.table.pairs;
    const servers = client.index.server({ role: 'hash' });
    client.pool.run(servers.round());
    loseTable(client);
    const building = new Stepped(client.pool.fabric, getting(client, 'k'));
    for (let i = 0; i < before && !building.done; i++) building.step();
    const isLate = building.done;
    // It finds the table lost, too, and is told to end.
    if (!isLate && pair.works) client.pool.run(servers.round());
    client.pool.run(servers.stop());
    while (!building.done) {
      const { client: holder } = client.pool.run(pair.hashLease.holder());
      if (pair.works) assert.equal(holder, pair.hashLease.own, `stopped after ${before} steps`);
      building.step();
    }
    assert.equal(building.finish(), 'v');
    assert.equal(generationOf(client), 1);
    assert.equal(client.pool.run(pair.hashLease.holder()).client, 0);
    if (isLate) return;
  }
  assert.fail('never built');
});

test('two servers have a role of each of two pairs, and both tables are lost', (t) => {
  const options = { shape: { ...SHAPE, pairs: 2 }, patience: { lapse: 1e9, pollsMax: 1e9 } };
  const one = newClient(t, {}, options);
  const other = newClient(t, { handle: one.handle }, options);
  for (const key of KEYS) put(one, key, `of ${key}`);
  const take = ({ pool, index }: Client, i: number, role: 'hashLease' | 'skiplistLease') => {
    const lease = index.table.pairs[i][role];
    assert.ok(pool.run(lease.takeToServe(pool.run(lease.holder()), 0)));
  };
  take(one, 0, 'skiplistLease');
  take(one, 1, 'hashLease');
  take(other, 0, 'hashLease');
  take(other, 1, 'skiplistLease');
  const clients = [one, other];
  const servers = clients.map(({ index }) => index.server({ role: 'both' }));
  const round = (i: number) => new Stepped<unknown>(clients[i].pool.fabric, servers[i].round());
  for (const running of [round(0), round(1)]) running.finish();
  for (const { geometry } of one.index.table.pairs) {
    const nothing = new Uint8Array(SHAPE.buckets * BUCKET_BYTES);
    one.pool.run(control.writeBytes(geometry.segments[0], nothing));
  }
  // A skiplist that has to be built reads the table.
  for (const { index } of clients) for (const pair of index.table.pairs) pair.skiplist.applied = -1;
  const rounds = [round(0), round(1)];
  const isRestored = ({ geometry }: Client['index']['table']['pairs'][0]) =>
    one.pool.run(readState({ geometry })).table.generation === 1;
  for (let steps = 0; !one.index.table.pairs.every(isRestored); steps++) {
    assert.ok(steps < STEPS_MAX, 'each waits for the other');
    rounds.forEach((running, i) => {
      if (running.done) rounds[i] = round(i);
      else running.step();
    });
  }
  for (const running of rounds) running.finish();
  for (const key of KEYS) assert.equal(get(one, key), `of ${key}`);
});

test('a table for which there is not enough memory takes none', (t) => {
  const sizes = { size: 4.5 * 2 ** 20, regionSize: 4.5 * 2 ** 20 };
  const client = newClient(t, sizes, { shape: { ...SHAPE, buckets: 2 ** 15 } });
  const { pool, index } = client;
  put(client, 'k', 'v');
  const { segments } = index.table.pairs[0].geometry;
  for (const segment of segments) {
    pool.run(control.writeBytes(segment, new Uint8Array(SEGMENT_BUCKETS * BUCKET_BYTES)));
  }
  const spans = () => {
    return [...pool.run(pool.chunks.words())].filter(
      ([, word]) => unpackChunk(word).state === CHUNK_SPAN,
    ).length;
  };
  const before = spans();
  // There is room for one of its two segments.
  for (let i = 0; i < 3; i++) assert.throws(() => get(client, 'k'), { code: 'SW_POOL_FULL' });
  assert.equal(spans(), before);
});
