import assert from 'node:assert/strict';
import { test } from 'node:test';
import { control } from '../../../pool/control.ts';
import { BLOCK_FREE } from '../../../pool/memory/block-state.ts';
import { requestFor, Stepped } from '../../../store/tests/support/by-hand.ts';
import type { Scope } from '../../../store/tests/support/pools.ts';
import type { Address } from '../../../verbs/index.ts';
import {
  ALWAYS,
  type Condition,
  IF_ABSENT,
  IF_PRESENT,
  INSERTED,
  REFUSED,
  REPLACED,
  STORED,
} from '../../contract.ts';
import { readState } from '../protocol/pair-state.ts';
import { type Client, get, newClient, put } from './support/clients.ts';

const STEPS_MAX = 1000;
const OTHERS = new Uint8Array(64).fill(0x5a);

/** A request that stands in the mailbox. */
interface Asked {
  client: Client;
  request: ReturnType<typeof requestFor>;
  block: Address;
  write: Stepped<unknown>;
}

function ask(client: Client, value: string, condition: Condition): Asked {
  const { pool, index } = client;
  const request = requestFor(client, 'k', value);
  const write = new Stepped(pool.fabric, index.write(request, condition));
  while (!/^WRITE WRITE WRITE CAS$/.test(write.kinds)) write.step();
  const { block } = request.record;
  write.step();
  return { client, request, block, write };
}

/** Clients with a row each, and a server process that has its lease. */
function served(scope: Scope, count: number, old?: string) {
  const first = newClient(scope);
  const another = () => newClient(scope, { handle: first.handle });
  const clients = [first, ...Array.from({ length: count - 1 }, another)];
  for (const client of clients) put(client, 'row', 'v');
  if (old !== undefined) put(first, 'k', old);
  // Each turn begins with another row than the one before: the next one with the first.
  while (turnsOf(first) % count !== 0) put(first, 'row', 'v');
  const server = another();
  const servers = server.index.server({ role: 'hash' });
  server.pool.run(servers.round());
  return { clients, server, servers };
}

/** Of a count of 14 bits. */
function turnsOf({ pool, index }: Client): number {
  return pool.run(readState(index.table.pairs[0])).turn.high >>> 18;
}

test('a turn answers all writes of one key, one after the other', (t) => {
  const { clients, server, servers } = served(t, 5);
  const before = turnsOf(server);
  const conditions = [IF_PRESENT, ALWAYS, IF_ABSENT, ALWAYS, IF_PRESENT] as const;
  const all = clients.map((client, i) => ask(client, `value ${i}`, conditions[i]));
  server.pool.run(servers.round());
  assert.equal(turnsOf(server), before + 1);
  for (const { write } of all) write.finish();
  const outcomes = all.map(({ write }) => write.result);
  assert.deepEqual(outcomes, [REFUSED, INSERTED, REFUSED, STORED, REPLACED]);
  assert.equal(get(server, 'k'), 'value 4');
  assert.deepEqual(
    [1, 3, 4].map((i) => all[i].request.record.version),
    [1, 2, 3],
  );
  server.pool.run(server.index.check({ problem: assert.fail, reachable() {}, progress() {} }));
});

/** What was retired comes free: nobody is within an operation. */
function passEpochs(clients: readonly Client[]): void {
  for (let i = 0; i < 4; i++) {
    for (const { pool } of clients) pool.betweenOperations(() => pool.reclamation.goOffline());
    for (const { pool } of clients) pool.betweenOperations(() => pool.reclamation.collect());
  }
}

/** Whether the block is free; who comes next uses it for something of its own. */
function isReused({ pool }: Client, block: Address): boolean {
  const state = pool.run(control.readBytes(pool.allocator.stateByteOf(block, 1), 1))[0];
  if (state === BLOCK_FREE) pool.run(control.writeBytes(block, OTHERS));
  return state === BLOCK_FREE;
}

test('a server dies between the replies to two writes of a key: no block is touched twice', (t) => {
  let reused = 0;
  for (let verbs = 0; ; verbs++) {
    const { clients, server, servers } = served(t, 4, 'old');
    const [one, two, three, reader] = clients;
    const all = [one, two, three].map((client, i) => ask(client, `value ${i}`, ALWAYS));
    const round = new Stepped<unknown>(server.pool.fabric, servers.round());
    while (!/CAS( CAS){8}/.test(round.kinds)) round.step();
    const isLast = verbs >= round.verbs;
    round.dieAfter(verbs);
    for (const { pool } of clients) {
      const { membership } = pool;
      const { liveness } = membership;
      membership.liveness = (row) =>
        row.id === server.pool.membership.id ? 'gone' : liveness.call(membership, row);
    }
    // The second has its answer, and frees what the first has written, before anybody goes on.
    const { write } = all[1];
    let isFree = false;
    two.pool.enter();
    if (/READ/.test(write.kinds)) write.step();
    for (let steps = 0; !write.done && /PAUSE/.test(write.kinds) && steps < 2; steps++)
      write.step();
    two.pool.exit();
    if (write.done) {
      passEpochs(clients);
      isFree = isReused(one, all[0].block);
    }
    for (const { client, write: waiting } of all) {
      client.pool.enter();
      waiting.finish();
      client.pool.exit();
    }
    assert.equal(get(reader, 'k'), 'value 2');
    if (isFree) {
      reused++;
      assert.deepEqual(reader.pool.run(control.readBytes(all[0].block, 64)), OTHERS);
    }
    assert.deepEqual(
      all.map(({ request }) => request.record.version),
      [2, 3, 4],
    );
    reader.pool.run(reader.index.check({ problem: assert.fail, reachable() {}, progress() {} }));
    if (isLast) break;
    assert.ok(verbs < STEPS_MAX);
  }
  assert.ok(reused > 0, 'its block was never free');
});
