import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CatalogEntry } from '../../../pool/catalog.ts';
import { clientOf, requestFor, Stepped } from '../../../store/tests/support/by-hand.ts';
import type { Operation } from '../../../verbs/index.ts';
import { ALWAYS, IF_ABSENT, INSERTED } from '../../contract.ts';
import { openIndex } from '../../kinds.ts';
import { HSTORE, type HStoreIndex } from '../hstore.ts';
import type { PairServers, ServerRole } from '../index-server.ts';
import { answerAbandoned } from '../recovery/abandoned-requests.ts';
import { type Client, Elections, get, newClient, put, SHAPE, scanned } from './support/clients.ts';

/** No server of these tests takes so many steps for what it is asked. */
const STEPS_MAX = 400;

/** The client's death is known to the other one. */
function bury(dead: Client, other: Client): void {
  const { membership } = other.pool;
  const { liveness } = membership;
  membership.liveness = (row) =>
    row.id === dead.pool.membership.id ? 'gone' : liveness.call(membership, row);
}

/** Lets client and server take turns; the server dies after so many steps. Whether it had died. */
function race<T>(
  client: Client,
  server: Client,
  role: ServerRole,
  operation: Operation<T>,
  deadAfter: number,
): { result: T; died: boolean } {
  const servers = server.index.server({ role });
  const asked = new Stepped(client.pool.fabric, operation);
  let round: Stepped<unknown> | undefined;
  let steps = 0;
  while (!asked.done && steps < deadAfter) {
    round ??= new Stepped(server.pool.fabric, servers.round());
    round.step();
    steps++;
    if (round.done) round = undefined;
    if (!asked.done) asked.step();
    assert.ok(steps < STEPS_MAX, 'nobody gets ahead');
  }
  const died = !asked.done;
  if (died) bury(server, client);
  const result = asked.finish();
  // A server that lives ends its round: one that is given up half-way answers nothing any more.
  if (!died && !round?.done) round?.finish();
  return { result, died };
}

test('a hash server dies after every step of a write: it is applied once, by another', (t) => {
  let deaths = 0;
  for (let deadAfter = 0; ; deadAfter++) {
    const client = newClient(t);
    const server = newClient(t, { handle: client.handle });
    put(client, 'k', 'old');
    const { index } = client;
    const request = requestFor(client, 'k', 'new');
    const { died } = race(client, server, 'hash', index.write(request, ALWAYS), deadAfter);
    assert.equal(get(client, 'k'), 'new');
    // One update: the version was counted on once.
    assert.equal(request.record.version, 2);
    if (died) put(client, 'k2', 'also');
    client.pool.run(index.check({ problem: assert.fail, reachable() {}, progress() {} }));
    if (!died) break;
    deaths++;
  }
  assert.ok(deaths > 5, `${deaths} deaths`);
});

/** Goes on for so many steps, or until it is done. */
function stepUpTo(stepped: Stepped<unknown>, steps: number): void {
  for (let i = 0; i < steps && !stepped.done; i++) stepped.step();
}

// The other one stops before it could take the lease: nobody waits for it.
test('a row that was looked at before its owner used it and died is not taken for unused', (t) => {
  for (let before = 0; before < 14; before++) {
    for (let looked = 0; looked < 10; looked++) {
      const dying = newClient(t);
      const other = newClient(t, { handle: dying.handle });
      const first = dying.index.write(requestFor(dying, 'k', 'v'), ALWAYS);
      const writing = new Stepped(dying.pool.fabric, first);
      const second = other.index.write(requestFor(other, 'k2', 'v2'), IF_ABSENT);
      const taking = new Stepped(other.pool.fabric, second);
      stepUpTo(writing, before);
      stepUpTo(taking, looked);
      writing.finish();
      bury(dying, other);
      // With the answer to the other's request this would be so, too, but nothing stored.
      assert.equal(taking.finish(), INSERTED);
      assert.deepEqual([get(other, 'k'), get(other, 'k2')], ['v', 'v2'], `${before}, ${looked}`);
    }
  }
});

test('who opens the store after a death sees at once what the dead has asked for', (t) => {
  let late = 0;
  for (let steps = 0; ; steps++) {
    const dying = newClient(t);
    const other = newClient(t, { handle: dying.handle });
    put(other, 'k', 'old');
    const write = dying.index.write(requestFor(dying, 'k', 'new'), ALWAYS);
    const writing = new Stepped(dying.pool.fabric, write);
    stepUpTo(writing, steps);
    const { done } = writing;
    bury(dying, other);
    const [pair] = other.index.table.pairs;
    const before = get(other, 'k');
    other.pool.run(answerAbandoned(pair));
    const after = get(other, 'k');
    if (after !== before) late++;
    put(other, 'other', 'v');
    assert.equal(get(other, 'k'), after, `after ${steps} steps`);
    assert.equal(other.pool.run(pair.hashLease.holder()).client, 0);
    if (done) break;
  }
  assert.ok(late > 3, `${late} times late`);
});

// It has announced no epoch yet: what it retires would be re-used under the hands of others.
test('who opens the store after a death retires nothing that others may be reading', (t) => {
  let retired = 0;
  for (let steps = 0; ; steps++) {
    const dying = newClient(t);
    const reading = newClient(t, { handle: dying.handle });
    const opening = newClient(t, { handle: dying.handle });
    const { pool } = opening;
    pool.rest();
    // The record of this turn is what the next one retires.
    put(reading, 'k', 'old');
    const write = dying.index.write(requestFor(dying, 'k', 'v'), ALWAYS);
    const writing = new Stepped(dying.pool.fabric, write);
    stepUpTo(writing, steps);
    // Whoever clears the row of a dead client announces this for it.
    dying.pool.run(dying.pool.reclamation.goOffline());
    bury(dying, opening);
    reading.pool.rest();
    for (const epoch of [1, 2, 3]) pool.run(pool.reclamation.advanceBeyond(epoch));
    reading.pool.run(reading.pool.reclamation.quiesce());
    const entry = pool.run(pool.catalog.find('default')) as CatalogEntry;
    pool.run(openIndex(pool, entry));
    assert.equal(pool.reclamation.online, false);
    const waiting = pool.reclamation.retired;
    pool.run(pool.reclamation.collect());
    assert.equal(pool.reclamation.retired, waiting, `after ${steps} steps`);
    reading.pool.run(reading.pool.reclamation.goOffline());
    pool.run(pool.reclamation.collect());
    assert.equal(pool.reclamation.retired, 0);
    retired += waiting;
    if (writing.done) break;
  }
  assert.ok(retired > 0, 'nothing was retired at all');
});

test('a skiplist server dies after every step of a scan: the client scans by itself', (t) => {
  let deaths = 0;
  for (let deadAfter = 0; ; deadAfter++) {
    const client = newClient(t);
    const server = newClient(t, { handle: client.handle });
    const keys = ['a', 'b', 'c', 'd'];
    for (const key of keys) put(client, key, key);
    const { result, died } = race(client, server, 'skiplist', scanned(client), deadAfter);
    assert.deepEqual(result, keys);
    put(client, 'e', 'e');
    // With the server gone, or alive and not running: only the first can be scanned without it.
    if (!died) break;
    assert.deepEqual(client.pool.run(scanned(client)), [...keys, 'e']);
    deaths++;
  }
  assert.ok(deaths > 5, `${deaths} deaths`);
});

test('a server that stands by takes over from one that is gone', (t) => {
  const client = newClient(t);
  const first = newClient(t, { handle: client.handle });
  const second = newClient(t, { handle: client.handle });
  const held = (server: PairServers, of: Client) => of.pool.run(server.round()).held;
  const one = first.index.server({ role: 'both' });
  const two = second.index.server({ role: 'both' });
  assert.equal(held(one, first), 2);
  assert.equal(held(two, second), 0);
  bury(first, second);
  assert.equal(held(two, second), 2);
  second.pool.run(two.stop());
  put(client, 'k', 'v');
  assert.equal(get(client, 'k'), 'v');
});

test('operations of one client that look in turn take over from a server that is gone', (t) => {
  const client = newClient(t);
  const server = newClient(t, { handle: client.handle });
  const servers = server.index.server({ role: 'hash' });
  server.pool.run(servers.round());
  const writes = ['a', 'b'].map((key) => {
    const request = requestFor(client, key, key);
    return new Stepped<unknown>(client.pool.fabric, client.index.write(request, ALWAYS));
  });
  // They are posted while it lives, and step by step from then on.
  for (let steps = 0; writes.some(({ done }) => !done); steps++) {
    if (steps === 10) bury(server, client);
    assert.ok(steps < 10 * STEPS_MAX, 'neither gets ahead');
    // After each pause the other one is the first to look.
    const write = writes[(steps >> 2) & 1];
    if (!write.done) write.step();
  }
  assert.deepEqual([get(client, 'a'), get(client, 'b')], ['a', 'b']);
});

test('nothing can be learnt of a server that attached in another way, and the error says so', (t) => {
  const server = newClient(t);
  const one = server.index.server({ role: 'both' });
  assert.equal(server.pool.run(one.round()).held, 2);
  const writing = (client: Client) => put(client, 'k', 'v');
  const scanning = (client: Client) => client.pool.run(scanned(client));
  for (const operation of [writing, scanning]) {
    for (const [liveness, message] of [
      ['alive', /^(?!.*in another way)/],
      ['unknown', /in another way/],
    ] as const) {
      const options = { handle: server.handle };
      const client = newClient(t, options, { patience: { pollsMax: 200 } });
      client.pool.membership.liveness = () => liveness;
      assert.throws(() => operation(client), { code: 'SW_TIMEOUT', message });
    }
  }
});

test('HStore (sync) returns when the skiplist server has applied the write', (t) => {
  const shape = { ...SHAPE, sync: 1 };
  const client = clientOf<HStoreIndex>(HSTORE, t, shape, {});
  const server = clientOf<HStoreIndex>(HSTORE, t, shape, { handle: client.handle });
  for (let i = 0; i < 3; i++) {
    const write = client.index.write(requestFor(client, `k${i}`, 'v'), ALWAYS);
    race(client, server, 'skiplist', write, STEPS_MAX);
    assert.equal(server.index.table.pairs[0].skiplist.image.bySlot.size, i + 1);
  }
});

test('a primary that slept since its election takes nothing from a later one', (t) => {
  const client = newClient(t);
  const [late, next] = [client, client].map(({ handle }) => {
    const server = newClient(t, { handle });
    const coordinator = new Elections();
    const servers = server.index.server({ role: 'hash', coordinator });
    return { elected: coordinator.candidacy, server, servers };
  });
  const held = ({ server, servers }: typeof late) => server.pool.run(servers.round()).held;
  assert.equal(held(late), 0);
  late.elected.token = 5;
  // It sleeps at every step of taking the lease, while the next one is elected, serves, and leaves.
  for (let steps = 0; ; steps++) {
    late.elected.token = 2 * steps + 5;
    const taking = new Stepped(late.server.pool.fabric, late.servers.round());
    stepUpTo(taking, steps);
    const token = 2 * steps + 6;
    const isTaken = client.index.table.pairs[0].hashLease;
    if (client.pool.run(isTaken.holder()).client !== 0) break;
    next.elected.token = token;
    assert.equal(held(next), 1);
    next.elected.token = undefined;
    assert.equal(held(next), 0);
    assert.equal(held(late), 0, 'outvoted');
    assert.equal((taking.finish() as { held: number }).held, 0);
    assert.deepEqual(
      { ...client.pool.run(isTaken.holder()), word: 0n },
      {
        word: 0n,
        client: 0,
        serves: false,
        yields: false,
        token,
      },
    );
  }
});

test('who is elected serves alone: clients stand in for nobody', (t) => {
  const client = newClient(t);
  const server = newClient(t, { handle: client.handle });
  const coordinator = new Elections();
  const servers = server.index.server({ role: 'hash', coordinator });
  coordinator.candidacy.token = 3;
  server.pool.run(servers.round());
  server.pool.run(servers.stop());
  client.index.table.patience = { ...client.index.table.pairs[0].patience, lapse: 10 };
  assert.throws(() => put(client, 'k', 'v'), { code: 'SW_NO_PRIMARY' });
  assert.equal(get(client, 'k'), undefined);
  // The request waits for the next primary.
  coordinator.candidacy.token = 4;
  server.pool.run(servers.round());
  assert.equal(get(client, 'k'), 'v');
});

test('the last turn of a round reads nothing for a turn that does not follow', (t) => {
  // One chain: of different keys a turn answers one, so there is always a next turn.
  const shape = { buckets: 1, rows: 64, log: 64 };
  const client = newClient(t, {}, { shape });
  const server = newClient(t, { handle: client.handle }, { shape });
  const servers = server.index.server({ role: 'hash' });
  server.pool.run(servers.round());
  for (let i = 0; i < 20; i++) {
    const request = requestFor(client, `key ${i}`, 'v');
    const asked = new Stepped(client.pool.fabric, client.index.write(request, ALWAYS));
    while (!/^WRITE WRITE WRITE CAS$/.test(asked.kinds)) asked.step();
    asked.step();
  }
  const round = new Stepped(server.pool.fabric, servers.round());
  const ahead: boolean[] = [];
  while (!round.done) {
    // What changes the pool last, and what it reads with that.
    if (/CAS( CAS){8}/.test(round.kinds)) ahead.push(/CAS (READ ){6}/.test(round.kinds));
    round.step();
  }
  assert.equal(round.result?.answered, ahead.length);
  assert.deepEqual(ahead, [...new Array(ahead.length - 1).fill(true), false]);
});
