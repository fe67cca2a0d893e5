import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StepwellError } from '../../../errors.ts';
import { control } from '../../../pool/control.ts';
import { requestFor, Stepped } from '../../../store/tests/support/by-hand.ts';
import { numbered } from '../../../store/tests/support/pools.ts';
import type { Operation } from '../../../verbs/index.ts';
import { ALWAYS } from '../../contract.ts';
import { Proof } from '../../substrates/proof.ts';
import { walkOf } from '../../traversal/walk.ts';
import { growTable } from '../recovery/rebuild-table.ts';
import { type Client, get, newClient, put, scanned } from './support/clients.ts';

/** Two keys for each bucket at most, when the table has grown as far as it can. */
const SHAPE = { buckets: 4, bucketsMax: 256, rows: 16, log: 64 };
const KEYS = numbered('key ', 500).sort();
const CHECK = { problem: assert.fail, reachable() {}, progress() {} };

function bucketsOf({ index }: Client): number {
  return index.table.pairs[0].geometry.buckets;
}

function verify(client: Client, keys: readonly string[]): void {
  for (const key of keys) assert.equal(get(client, key), `of ${key}`);
  assert.deepEqual(client.pool.run(scanned(client)), [...keys].sort());
  client.pool.run(client.index.check(CHECK));
}

function fill(client: Client, keys: readonly string[]): void {
  for (const key of keys) put(client, key, `of ${key}`);
}

test('a table grows with its keys, and clients that know a smaller one find all', (t) => {
  const client = newClient(t, {}, { shape: SHAPE });
  const others = [0, 1].map(() => newClient(t, { handle: client.handle }));
  client.pool.run(scanned(client));
  for (const [i, key] of KEYS.entries()) fill([client, others[0]][i % 2], [key]);
  assert.equal(get(others[1], KEYS[0]), `of ${KEYS[0]}`);
  for (const one of [client, ...others]) {
    verify(one, KEYS);
    assert.equal(bucketsOf(one), 128);
  }
  const grown = [client, ...others].map(({ index }) => index.counters.grown);
  assert.equal(grown[0] + grown[1], 5);
});

test('a table without bucketsMax does not grow', (t) => {
  const client = newClient(t);
  fill(client, KEYS);
  assert.equal(bucketsOf(client), 4);
  assert.ok(client.index.counters.chained > 50);
});

test('no near read is proved by a bucket, chained or not, of a table that has doubled', (t) => {
  const client = newClient(t, {}, { shape: SHAPE });
  const { index, pool } = client;
  const [pair] = index.table.pairs;
  const proofs: Proof[] = [];
  fill(client, KEYS.slice(0, 200));
  const [first, end] = [pair.geometry.bucket(0), pair.geometry.bucket(bucketsOf(client) - 1) + 64];
  let chained = 0;
  for (const key of KEYS.slice(0, 200)) {
    const request = requestFor(client, key);
    assert.ok(pool.run(index.search(request)));
    const proof = new Proof();
    assert.ok(index.prove(request, proof));
    assert.ok(stands(client, proof));
    proofs.push(proof);
    if (proof.slot < first || proof.slot >= end) chained++;
  }
  assert.ok(chained > 0);
  pool.run(growTable(pair, pair.geometry.generation));
  assert.deepEqual(
    proofs.filter((proof) => stands(client, proof)),
    [],
  );
});

function stands({ pool }: Client, { mark, markLow, markHigh }: Proof): boolean {
  const word = pool.run(control.load(mark));
  return word === (BigInt(markHigh >>> 0) << 32n) + BigInt(markLow >>> 0);
}

test('a walk during which the table grows meets each key once', (t) => {
  const client = newClient(t, {}, { shape: { ...SHAPE, buckets: 128, bucketsMax: 1024 } });
  const [early, late] = [KEYS.slice(0, 400), numbered('late ', 2400)];
  fill(client, early);
  const met: string[] = [];
  const walk = walkOf(client.index);
  for (let steps = 0; !walk.done; steps++) {
    client.pool.run(
      walk.next((request, bytes) => {
        met.push(Buffer.from(request.outgoing.u8.slice(16, 16 + bytes)).toString());
      }),
    );
    if (steps === 0) fill(client, late);
  }
  assert.equal(bucketsOf(client), 1024);
  assert.deepEqual(met.filter((key) => early.includes(key)).sort(), early);
});

test('the client that doubles the table dies at any verb', (t) => {
  const keys = KEYS.slice(0, 40);
  for (let step = 0; ; step++) {
    const client = newClient(t, {}, { shape: SHAPE });
    const dying = newClient(t, { handle: client.handle });
    fill(dying, keys);
    const pair = dying.index.table.pairs[0];
    const growing = new Stepped(dying.pool.fabric, growTable(pair, pair.geometry.generation));
    for (let i = 0; i < step && !growing.done; i++) growing.step();
    if (growing.done) break;
    growing.dieAfter(Math.ceil(growing.verbs / 2));
    bury(dying, client);
    put(client, KEYS[40], `of ${KEYS[40]}`);
    verify(client, [...keys, KEYS[40]]);
  }
});

test('a client that is stopped while it doubles the table is overtaken: no write is lost', (t) => {
  const keys = KEYS.slice(0, 40);
  for (let step = 0; ; step++) {
    const client = newClient(t, {}, { shape: SHAPE });
    const slow = newClient(t, { handle: client.handle });
    fill(slow, keys);
    const pair = slow.index.table.pairs[0];
    const growing = new Stepped(slow.pool.fabric, growTable(pair, pair.geometry.generation));
    for (let i = 0; i < step && !growing.done; i++) growing.step();
    if (growing.done) break;
    // Once it keeps the lease, others wait for it: a few verbs.
    const { pool, index } = client;
    const write = index.write(requestFor(client, KEYS[40], `of ${KEYS[40]}`), ALWAYS);
    const writing = new Stepped(pool.fabric, write);
    for (let i = 0; i < 500 && !writing.done; i++) writing.step();
    growing.finish();
    writing.finish();
    for (const one of [client, slow]) verify(one, [...keys, KEYS[40]]);
  }
});

test('server processes double the table, and scans go on', (t) => {
  const client = newClient(t, {}, { shape: SHAPE });
  const roles = (['hash', 'skiplist'] as const).map((role) => {
    const { index, pool } = newClient(t, { handle: client.handle });
    return { pool, servers: index.server({ role }) };
  });
  const round = () => {
    for (const { pool, servers } of roles) pool.run(servers.round());
  };
  const served = <T>(operation: Operation<T>): T => {
    const one = new Stepped(client.pool.fabric, operation);
    for (let steps = 0; !one.done && steps < 5000; steps++) {
      one.step();
      round();
    }
    return one.result as T;
  };
  round();
  for (const [i, key] of KEYS.entries()) {
    served(client.index.write(requestFor(client, key, `of ${key}`), ALWAYS));
    if (i % 50 === 49) assert.deepEqual(served(scanned(client)), KEYS.slice(0, i + 1));
  }
  assert.equal(client.index.counters.grown, 0);
  for (const { pool, servers } of roles) pool.run(servers.stop());
  verify(client, KEYS);
  assert.equal(bucketsOf(client), 128);
});

test('in a full pool chains get longer', (t) => {
  const client = newClient(t, {}, { shape: SHAPE });
  client.pool.allocator.spans.allocate = () => {
    throw new StepwellError('SW_POOL_FULL', 'there are no spans');
  };
  fill(client, KEYS);
  verify(client, KEYS);
  assert.equal(bucketsOf(client), 4);
  assert.equal(client.index.counters.grown, 0);
});

/** The client's death is known to the other one. */
function bury(dead: Client, other: Client): void {
  const { membership } = other.pool;
  const { liveness } = membership;
  membership.liveness = (row) =>
    row.id === dead.pool.membership.id ? 'gone' : liveness.call(membership, row);
}
