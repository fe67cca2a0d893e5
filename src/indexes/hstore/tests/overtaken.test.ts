import assert from 'node:assert/strict';
import { test } from 'node:test';
import { claimedBlocks } from '../../../pool/memory/tests/support/claimed-blocks.ts';
import {
  type ByHandOptions,
  kindsOf,
  requestFor,
  Stepped,
} from '../../../store/tests/support/by-hand.ts';
import type { Scope } from '../../../store/tests/support/pools.ts';
import type { Address, Batch } from '../../../verbs/index.ts';
import { ALWAYS } from '../../contract.ts';
import { sweep } from '../../sweep.ts';
import { readState } from '../protocol/pair-state.ts';
import { blockOfTurn } from '../protocol/turn.ts';
import { holding } from '../recovery/hold-lease.ts';
import {
  type Client,
  newClient as clientOf,
  Elections,
  get,
  put,
  SHAPE,
} from './support/clients.ts';

/** Writes that nobody answers give up soon. */
const PATIENCE = { lapse: 500, pollsMax: 1000 };
const STEPS_MAX = 1000;
/** More than a client has claimed ahead. */
const BLOCKS = 100;

function newClient(scope: Scope, options: ByHandOptions = {}, shape: object = SHAPE): Client {
  return clientOf(scope, options, { shape, patience: PATIENCE });
}

const pairOf = ({ index }: Client) => index.table.pairs[0];

function writing(client: Client, key: string): Stepped<unknown> {
  const { pool, index } = client;
  return new Stepped(pool.fabric, index.write(requestFor(client, key, 'new'), ALWAYS));
}

function until(stepped: Stepped<unknown>, what: () => boolean): void {
  for (let steps = 0; !what(); steps++) {
    assert.ok(!stepped.done && steps < STEPS_MAX, 'it never comes so far');
    stepped.step();
  }
}

/** That a block is not for others to be had. */
function assertKept({ pool, index }: Client, units: number, block: Address): void {
  for (let i = 0; i < BLOCKS; i++) {
    assert.notEqual(pool.run(pool.allocator.allocate(index.records.catalog, units)), block);
  }
}

/** Before the doorbell that decides a turn; those of the turn before are not waited for. */
const decides = (stepped: Stepped<unknown>) => () => /^WRITE CAS READ/.test(stepped.kinds);
/** Before a turn begins: with a doorbell of its own, or with the last one of the turn before. */
const looks = (stepped: Stepped<unknown>) => () =>
  /(READ ){6}/.test(stepped.kinds) && !decides(stepped)();
const isPosted = (stepped: Stepped<unknown>) => () => /^WRITE WRITE WRITE CAS$/.test(stepped.kinds);

/** Keys whose turns are two, because they share a bucket, and one of another bucket. */
function keysOf({ index }: Client): { first: string; second: string; other: string } {
  const bucket = (key: string) => requestFor({ index }, key).hash.h1 & (SHAPE.buckets - 1);
  const keys = Array.from({ length: 100 }, (_, i) => `key ${i}`);
  const [first] = keys;
  const second = keys.slice(1).find((key) => bucket(key) === bucket(first)) as string;
  const other = keys.find((key) => bucket(key) !== bucket(first)) as string;
  return { first, second, other };
}

/**
 * One is stopped when it has decided a turn for another client, and not its own request: it will
 * go on with a turn that it begins.
 */
function stopped(scope: Scope): { one: Stepped<unknown>; clients: Client[]; other: string } {
  const asking = newClient(scope);
  const clients = [asking];
  for (let i = 0; i < 2; i++) clients.push(newClient(scope, { handle: asking.handle }));
  for (const [i, client] of clients.entries()) put(client, `before ${i}`, 'v');
  const { first, second, other } = keysOf(asking);
  const one = writing(clients[1], second);
  until(one, isPosted(one));
  one.step();
  const waiting = writing(asking, first);
  until(waiting, isPosted(waiting));
  waiting.step();
  until(one, decides(one));
  one.step();
  return { one, clients, other };
}

test('who was overtaken decides nothing while another one holds the lease', (t) => {
  const { one, clients } = stopped(t);
  const holder = clients[2];
  const pair = pairOf(holder);
  let steps = 0;
  holder.pool.run(
    holding(pair, 'the test', function* () {
      const { committed, begun } = yield* readState(pair);
      while (!one.done && steps++ < 20) one.step();
      const after = yield* readState(pair);
      assert.deepEqual([after.begun, after.committed], [begun, committed]);
    }),
  );
  assert.ok(steps > 5);
  one.finish();
});

test('nor while another operation of the same client holds it', (t) => {
  const { one, clients, other } = stopped(t);
  until(one, looks(one));
  // It is overtaken by one that is done before the same client has the lease again.
  put(clients[2], other, 'v');
  const pair = pairOf(clients[1]);
  clients[1].pool.run(
    holding(pair, 'the test', function* () {
      const waiting = writing(clients[2], 'waits');
      until(waiting, isPosted(waiting));
      waiting.step();
      const { begun } = yield* readState(pair);
      for (let steps = 0; !one.done && steps < 20; steps++) one.step();
      assert.equal((yield* readState(pair)).begun, begun);
    }),
  );
  one.finish();
});

test('a turn that another one has done does not leave the lease behind', (t) => {
  const { one, clients, other } = stopped(t);
  const last = clients[2];
  const next = writing(last, other);
  until(next, decides(next));
  // It goes on to the beginning of its next turn.
  until(one, looks(one));
  next.step();
  until(one, () => one.done || one.steps > 60);
  next.finish();
  one.finish();
  assert.equal(last.pool.run(pairOf(last).hashLease.holder()).client, 0);
  put(last, 'at last', 'v');
  assert.equal(get(clients[0], 'at last'), 'v');
});

test('of a turn that only forestalls, half done, nothing is to be done', (t) => {
  for (const puts of [0, 1]) {
    const client = newClient(t);
    const other = newClient(t, { handle: client.handle });
    if (puts) put(client, 'k', 'v');
    const { hashServer } = pairOf(other);
    const forestalling = new Stepped(other.pool.fabric, hashServer.forestall());
    until(forestalling, () => forestalling.kinds === 'CAS CAS');
    forestalling.dieAfter(1);
    put(client, 'k', 'w');
    assert.equal(get(client, 'k'), 'w');
    assert.equal(pairOf(client).repeated, 0);
  }
});

test('the record of a turn stays when the doorbell that decided it was not answered', (t) => {
  const client = newClient(t);
  put(client, 'k', 'v');
  const { pool, index } = client;
  const operation = index.write(requestFor(client, 'k', 'w'), ALWAYS);
  for (let step = operation.next(); ; step = operation.next()) {
    const batch = step.value as Batch;
    pool.fabric.execute(batch);
    if (/^WRITE CAS READ/.test(kindsOf(batch))) break;
  }
  const failing = () => {
    let step = operation.throw(new Error('no answer'));
    for (; !step.done; step = operation.next()) pool.fabric.execute(step.value);
  };
  assert.throws(failing, /no answer/);
  const turn = blockOfTurn(pool.run(readState(pairOf(client))).turn);
  assertKept(client, turn.units, turn.address);
});

test('a write that fails when it was answered already keeps its record', (t) => {
  const client = newClient(t);
  const server = newClient(t, { handle: client.handle });
  const serving = writing(server, 'other');
  until(serving, isPosted(serving));
  serving.step();
  const request = requestFor(client, 'k', 'v');
  const operation = client.index.write(request, ALWAYS);
  const given = new Stepped(client.pool.fabric, operation);
  until(given, isPosted(given));
  const { block } = request.record;
  given.step();
  serving.finish();
  client.pool.run(pairOf(client).replies.look());
  assert.throws(() => operation.throw(new Error('too late')), /too late/);
  assertKept(client, 1, block);
});

test('a write that is done, and not applied in time, keeps its record', (t) => {
  const shape = { ...SHAPE, sync: 1 };
  const client = newClient(t, {}, shape);
  const server = newClient(t, { handle: client.handle }, shape);
  server.pool.run(server.index.server({ role: 'skiplist' }).round());
  const request = requestFor(client, 'k', 'v');
  const given = new Stepped(client.pool.fabric, client.index.write(request, ALWAYS));
  until(given, isPosted(given));
  const { block } = request.record;
  assert.throws(() => given.finish(), { code: 'SW_TIMEOUT' });
  assert.equal(get(client, 'k'), 'v');
  assertKept(client, 1, block);
});

test('a sweep spares the record of a write that was given up and waits for a primary', (t) => {
  const client = newClient(t);
  const server = newClient(t, { handle: client.handle });
  const coordinator = new Elections();
  const servers = server.index.server({ role: 'hash', coordinator });
  coordinator.candidacy.token = 3;
  server.pool.run(servers.round());
  server.pool.run(servers.stop());
  const request = requestFor(client, 'k', 'given up');
  const given = new Stepped(client.pool.fabric, client.index.write(request, ALWAYS));
  until(given, isPosted(given));
  const { block } = request.record;
  assert.throws(() => given.finish(), { code: 'SW_NO_PRIMARY' });
  // Nobody else is within an operation.
  server.pool.run(server.pool.reclamation.goOffline());
  client.pool.betweenOperations(() => sweep(client.pool, client.index));
  const { pool, index } = client;
  assert.ok(claimedBlocks(pool, index.records.catalog).has(block), 'it is in use');
  coordinator.candidacy.token = 4;
  server.pool.run(server.pool.reclamation.quiesce());
  server.pool.run(servers.round());
  assert.equal(get(client, 'k'), 'given up');
});

test('who completes the turn that has answered it does not go on for others', (t) => {
  // One chain: of all that waits a turn answers one, so a turn always leaves some.
  const shape = { ...SHAPE, buckets: 1 };
  const client = newClient(t, {}, shape);
  const { handle } = client;
  // Of two rows that one comes first, after two turns.
  for (const key of ['before', 'before that']) put(client, key, 'v');
  const server = newClient(t, { handle }, shape);
  const serving = writing(server, 'of the server');
  until(serving, isPosted(serving));
  serving.step();
  const own = writing(client, 'own');
  until(own, isPosted(own));
  own.step();
  until(serving, decides(serving));
  serving.step();
  // It is stopped there. Others post one write after the other, and overtake nobody.
  const patience = { stand: 1e9, pollsMax: 1e9 };
  const others = [1, 2, 3].map(() => clientOf(t, { handle }, { shape, patience }));
  const posted = others.map((other) => writing(other, 'hot'));
  for (let steps = 0; !own.done; steps++) {
    assert.ok(steps < STEPS_MAX, 'it serves others, and never looks for its reply');
    own.step();
    for (let i = 0; i < 4 * posted.length; i++) {
      const at = i % posted.length;
      if (posted[at].done) posted[at] = writing(others[at], 'hot');
      posted[at].step();
    }
  }
  assert.equal(pairOf(client).repeated, 1);
  assert.equal(get(client, 'own'), 'new');
  while (posted.some(({ done }) => !done)) for (const one of posted) if (!one.done) one.step();
});
