import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ByHand,
  type ByHandOptions,
  clientOf,
  foundText,
  requestFor,
  Stepped,
} from '../../store/test-support/by-hand.ts';
import type { Scope } from '../../store/test-support/pools.ts';
import { ALWAYS } from '../contract.ts';
import { sweep } from '../sweep.ts';
import type { Candidacy, Coordinator } from './candidacy.ts';
import { holding } from './holding.ts';
import { HSTORE, type HStoreIndex } from './hstore.ts';
import { IndexServer } from './index-server.ts';
import { readState } from './state.ts';

type Client = ByHand<HStoreIndex>;

const SHAPE = { buckets: 4, rows: 16, log: 16 };
const STEPS_MAX = 1000;
/** More than a sweep gives back. */
const BLOCKS = 1000;

function newClient(scope: Scope, options: ByHandOptions = {}): Client {
  const client = clientOf<HStoreIndex>(HSTORE, scope, SHAPE, options);
  client.index.table.patience = {
    ...{ polls: 1, stand: 20, lapse: 500, pollsMax: 1000 },
    ...{ microseconds: 0, longMicroseconds: 0 },
  };
  return client;
}

const pairOf = ({ index }: Client) => index.table.pairs[0];

function writing(client: Client, key: string): Stepped<unknown> {
  const { pool, index } = client;
  return new Stepped(pool.fabric, index.write(requestFor(client, key, 'new'), ALWAYS));
}

function put({ pool, index }: Client, key: string, value: string): void {
  pool.run(index.write(requestFor({ index }, key, value), ALWAYS));
}

function get({ pool, index }: Client, key: string): string | undefined {
  const request = requestFor({ index }, key);
  return pool.run(index.search(request)) ? foundText(request) : undefined;
}

function until(stepped: Stepped<unknown>, what: () => boolean): void {
  for (let steps = 0; !what(); steps++) {
    assert.ok(!stepped.done && steps < STEPS_MAX, 'it never comes so far');
    stepped.step();
  }
}

/** Before the doorbell that decides a turn; those of the turn before are not waited for. */
const decides = (stepped: Stepped<unknown>) => () => /^WRITE CAS READ/.test(stepped.kinds);
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

test('a turn that another one has done does not leave the lease behind', (t) => {
  const { one, clients, other } = stopped(t);
  const last = clients[2];
  const next = writing(last, other);
  until(next, decides(next));
  // It goes on to the beginning of its next turn.
  const looks = () => /^READ READ READ READ READ READ/.test(one.kinds);
  until(one, looks);
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

/** Says what a test tells it to. */
class Elections implements Coordinator {
  readonly candidacy: { token: number | undefined } = { token: undefined };

  stand(): Candidacy {
    return this.candidacy;
  }

  async close(): Promise<void> {}
}

test('a sweep spares the record of a write that was given up and waits for a primary', (t) => {
  const client = newClient(t);
  const server = newClient(t, { handle: client.handle });
  const coordinator = new Elections();
  const servers = new IndexServer(server.index.table, { role: 'hash', coordinator });
  coordinator.candidacy.token = 3;
  server.pool.run(servers.round());
  server.pool.run(servers.stop());
  const request = requestFor(client, 'k', 'given up');
  const given = new Stepped(client.pool.fabric, client.index.write(request, ALWAYS));
  const { block } = request;
  assert.throws(() => given.finish(), { code: 'SW_NO_PRIMARY' });
  client.pool.betweenOperations(() => sweep(client.pool, client.index));
  const { allocator } = client.pool;
  for (let i = 0; i < BLOCKS; i++) {
    assert.notEqual(client.pool.run(allocator.allocate(client.index.catalog, 1)), block);
  }
  coordinator.candidacy.token = 4;
  server.pool.run(servers.round());
  assert.equal(get(client, 'k'), 'given up');
});
