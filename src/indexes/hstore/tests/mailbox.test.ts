import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StepwellError } from '../../../errors.ts';
import { clientOf, kindsOf, requestFor, Stepped } from '../../../store/tests/support/by-hand.ts';
import type { Scope } from '../../../store/tests/support/pools.ts';
import { type Batch, PAUSE } from '../../../verbs/index.ts';
import { ALWAYS } from '../../contract.ts';
import { HSTORE, type HStoreIndex } from '../hstore.ts';
import type { ServerRole } from '../index-server.ts';
import { PATIENCE } from '../protocol/waiting.ts';
import { type Client, get, newClient, put, scanned } from './support/clients.ts';

/** Microseconds that a batch lets pass, without letting them pass. */
function pausesOf({ length, kind, bytes }: Batch): number {
  let sum = 0;
  for (let row = 0; row < length; row++) if (kind[row] === PAUSE) sum += bytes[row];
  return sum;
}

test('who has no row left waits for longer than a server may stand still', (t) => {
  const { pool, index } = clientOf<HStoreIndex>(HSTORE, t, { buckets: 4, rows: 16, log: 16 }, {});
  const [{ mailbox }] = index.table.pairs;
  // 16 rows for as many clients: one each.
  const row = pool.run(mailbox.take());
  const waiting = mailbox.take();
  let microseconds = 0;
  assert.throws(
    () => {
      for (;;) microseconds += pausesOf(waiting.next().value as Batch);
    },
    { code: 'SW_CONTENTION' },
  );
  assert.ok(microseconds > PATIENCE.lapse * PATIENCE.longMicroseconds, `${microseconds} us`);
  mailbox.give(row);
  assert.equal(pool.run(mailbox.take()), row);
});

/** Its process goes on by hand only. */
function serving(scope: Scope, client: Client, role: ServerRole) {
  const server = newClient(scope, { handle: client.handle }, { shape: ONE_ROW });
  const servers = server.index.server({ role });
  server.pool.run(servers.round());
  return { round: () => new Stepped<unknown>(server.pool.fabric, servers.round()) };
}

/** As many clients as rows: each has one. */
const ONE_ROW = { buckets: 4, rows: 16, log: 16 };
const SOON = { lapse: 1e9, pollsMax: 20 };

function hasTimedOut(operation: () => unknown): boolean {
  try {
    operation();
    return false;
  } catch (error) {
    assert.equal((error as StepwellError).code, 'SW_TIMEOUT');
    return true;
  }
}

test('a row is taken back when its request is answered late, wherever its server stands', (t) => {
  let late = 0;
  for (let steps = 0; ; steps++) {
    const client = newClient(t, {}, { shape: ONE_ROW, patience: SOON });
    put(client, 'k', 'old');
    const { round } = serving(t, client, 'hash');
    const { pool, index } = client;
    // Then the first CAS of a write is that of its request, and not one that claims a block.
    pool.run(pool.prefetchBlocks());
    const first = new Stepped(pool.fabric, index.write(requestFor(client, 'k', '1'), ALWAYS));
    while (!first.kinds.includes('CAS')) first.step();
    first.step();
    const answering = round();
    for (let i = 0; i < steps && !answering.done; i++) answering.step();
    const isLate = hasTimedOut(() => first.finish());
    index.table.patience = { ...index.table.pairs[0].patience, pollsMax: 1e6 };
    const next = requestFor(client, 'k', '2');
    const second = new Stepped(pool.fabric, index.write(next, ALWAYS));
    for (let one = answering; !second.done; one = one.done ? round() : one) {
      if (!one.done) one.step();
      second.step();
    }
    assert.equal(get(client, 'k'), '2');
    assert.equal(next.record.version, 3, 'each was applied once');
    if (!isLate) break;
    late++;
  }
  assert.ok(late > 5, `${late} times late`);
});

test('so it is of a scan', (t) => {
  const client = newClient(t, {}, { shape: ONE_ROW, patience: SOON });
  put(client, 'k', 'v');
  const { round } = serving(t, client, 'skiplist');
  const { pool, index } = client;
  for (let i = 0; i < 3; i++) {
    index.table.patience = { ...index.table.pairs[0].patience, pollsMax: SOON.pollsMax };
    assert.ok(hasTimedOut(() => pool.run(scanned(client))));
    round().finish();
    index.table.patience = { ...index.table.pairs[0].patience, pollsMax: 1e6 };
    const asked = new Stepped(pool.fabric, scanned(client));
    while (!asked.done) {
      asked.step();
      if (!asked.done) round().finish();
    }
    assert.deepEqual(asked.finish(), ['k']);
  }
});

test('a scan that fails when it has just asked does not keep its row', (t) => {
  const client = newClient(t, {}, { shape: ONE_ROW });
  put(client, 'k', 'v');
  const { round } = serving(t, client, 'skiplist');
  const { pool } = client;
  const scan = scanned(client);
  for (let step = scan.next(); ; step = scan.next()) {
    const batch = step.value as Batch;
    pool.fabric.execute(batch);
    if (kindsOf(batch).startsWith('WRITE WRITE')) break;
  }
  assert.throws(() => scan.throw(new Error('no answer')), /no answer/);
  round().finish();
  const again = new Stepped(pool.fabric, scanned(client));
  while (!again.done) {
    again.step();
    if (!again.done) round().finish();
  }
  assert.deepEqual(again.finish(), ['k']);
});

test('who looks for a row asks for each client once, and not for each of its rows', (t) => {
  const shape = { buckets: 4, rows: 128, log: 16 };
  const busy = newClient(t, {}, { shape });
  const other = newClient(t, { handle: busy.handle }, { shape });
  const { mailbox } = busy.index.table.pairs[0];
  for (let i = 0; i < 64; i++) busy.pool.run(mailbox.take());
  const taking = new Stepped(other.pool.fabric, other.index.table.pairs[0].mailbox.take());
  assert.equal(taking.finish(), 64);
  assert.ok(taking.steps < 16, `${taking.steps} round trips`);
});
