import { type TestContext, test } from 'node:test';
import { control } from '../../../pool/control.ts';
import { throwsCode } from '../../../store/tests/support/codes.ts';
import type { Address } from '../../../verbs/index.ts';
import { eachReachable } from '../../sweep.ts';
import { BODY_BYTES, PAIR, type PairGeometry } from '../protocol/geometry.ts';
import { markOf, NEXT } from '../protocol/slot.ts';
import { turnAfter } from '../protocol/turn.ts';
import { answerScans } from '../skiplist-server/skiplist-server.ts';
import { type Client, get, newClient, put, SHAPE, scanned } from './support/clients.ts';

const HUGE = 2n ** 40n;

function sample(t: TestContext): { client: Client; geometry: PairGeometry } {
  const client = newClient(t);
  for (let i = 0; i < 30; i++) put(client, `key ${i}`, 'value');
  client.pool.run(scanned(client));
  return { client, geometry: client.index.table.pairs[0].geometry };
}

function store({ pool }: Client, address: Address, value: bigint): void {
  pool.run(control.store(address, value));
}

test('a chain of buckets that leads back into itself ends every call', (t) => {
  const { client, geometry } = sample(t);
  for (let i = 0; i < SHAPE.buckets; i++) {
    const bucket = geometry.bucket(i);
    store(client, bucket + NEXT, BigInt(bucket + markOf(0)));
  }
  const { pool, index } = client;
  throwsCode('SW_POOL_CORRUPT', () => get(client, 'absent'));
  throwsCode('SW_POOL_CORRUPT', () => put(client, 'absent', 'value'));
  throwsCode('SW_POOL_CORRUPT', () => pool.run(index.shape()));
  const another = newClient(t, { handle: client.handle });
  throwsCode('SW_POOL_CORRUPT', () => pool.run(scanned(another)));
});

test('more rows in use than a mailbox has are damage', (t) => {
  const { client, geometry } = sample(t);
  store(client, geometry.hashMailbox.rowsUsed, HUGE);
  throwsCode('SW_POOL_CORRUPT', () => put(client, 'key 1', 'value'));
  throwsCode('SW_POOL_CORRUPT', () => client.pool.run(eachReachable(client.index, () => {})));
  store(client, geometry.hashMailbox.rowsUsed, 1n);
  store(client, geometry.skiplistMailbox.rowsUsed, HUGE);
  throwsCode('SW_POOL_CORRUPT', () => client.pool.run(eachReachable(client.index, () => {})));
  throwsCode('SW_POOL_CORRUPT', () => client.pool.run(answerScans(client.index.table.pairs[0])));
});

test('requests that nobody can have posted are damage', (t) => {
  const row = 1;
  const bodies = [0xff_ff_ff_ff_00_00_00_01n, 0x7f_ff_ff_ff_00_00_00_01n, 5n];
  for (const first of bodies) {
    const { client, geometry } = sample(t);
    const { hashMailbox: mailbox } = geometry;
    for (let at = 8; at < BODY_BYTES; at += 8) store(client, mailbox.body(row) + at, 0n);
    store(client, mailbox.body(row), first);
    store(client, mailbox.rowsUsed, 2n);
    store(client, mailbox.request(row), 77n);
    throwsCode('SW_POOL_CORRUPT', () => put(client, 'key 1', 'value'), `body ${first}`);
  }
});

test('a change that has begun far ahead of those that are committed is damage', (t) => {
  const { client, geometry } = sample(t);
  store(client, geometry.base + PAIR.begun, HUGE);
  const another = newClient(t, { handle: client.handle });
  throwsCode('SW_POOL_CORRUPT', () => another.pool.run(scanned(another)));
});

test('a turn whose record is of other decisions than it can have is damage', (t) => {
  const records: [at: number, value: bigint][][] = [
    [[0, HUGE]],
    [
      [0, 1n],
      [16, 0xffffn],
    ],
  ];
  for (const words of records) {
    const { client, geometry } = sample(t);
    const { pool, index } = client;
    const done = pool.run(control.load(geometry.base + PAIR.done));
    const before = { low: Number(done & 0xffffffffn), high: Number(done >> 32n) };
    const record = pool.run(pool.allocator.allocate(index.records.catalog, 4));
    for (const [at, value] of words) store(client, record + at, value);
    const { low, high } = turnAfter(before, record, 4);
    store(client, geometry.base + PAIR.turn, (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0));
    throwsCode('SW_POOL_CORRUPT', () => put(client, 'key 1', 'value'));
  }
});

test('segments that stand nowhere are damage', (t) => {
  const { client, geometry } = sample(t);
  for (const address of [HUGE, 2n ** 63n, 2n ** 52n + 7n]) {
    store(client, geometry.segmentTable, address);
    const another = newClient(t, { handle: client.handle });
    throwsCode('SW_POOL_CORRUPT', () => get(another, 'key 1'));
  }
});

test('a table that has grown more often than it may is damage', (t) => {
  const { client, geometry } = sample(t);
  for (const growth of [1n, 30n, 2000n]) {
    store(client, geometry.base + PAIR.table, growth << 41n);
    throwsCode('SW_POOL_CORRUPT', () => newClient(t, { handle: client.handle }));
  }
});
