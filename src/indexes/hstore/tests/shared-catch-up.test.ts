import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Stepped } from '../../../store/tests/support/by-hand.ts';
import { numbered } from '../../../store/tests/support/pools.ts';
import { newClient, put, scanned } from './support/clients.ts';

const KEYS = numbered('key ', 34).sort();
const STEPS_MAX = 20_000;

/** Drives operations of one client in turn, a doorbell of each, to their ends. */
function interleave(operations: readonly Stepped<unknown>[]): unknown[] {
  for (let steps = 0; operations.some(({ done }) => !done); steps++) {
    assert.ok(steps < STEPS_MAX, 'nobody gets ahead');
    for (const one of operations) if (!one.done) one.step();
  }
  return operations.map(({ result }) => result);
}

test('scans of one client that begin together build one skiplist, and follow the log once', (t) => {
  const client = newClient(t);
  const writer = newClient(t, { handle: client.handle });
  const scans = () => {
    const all = Array.from({ length: 20 }, () => new Stepped(client.pool.fabric, scanned(client)));
    return interleave(all);
  };
  for (const key of KEYS.slice(0, 30)) put(writer, key, 'v');
  for (const result of scans()) assert.deepEqual(result, KEYS.slice(0, 30));
  const { skiplist } = client.index.table.pairs[0];
  assert.equal(skiplist.rebuilds, 1);
  // The log is as long as 16 entries.
  for (const key of KEYS.slice(30)) put(writer, key, 'v');
  for (const result of scans()) assert.deepEqual(result, KEYS);
  assert.equal(skiplist.rebuilds, 1);
});

test('an operation that waits for another one of its client goes on when that one fails', (t) => {
  const client = newClient(t);
  for (const key of KEYS) put(client, key, 'v');
  const { skiplist } = client.index.table.pairs[0];
  const first = scanned(client);
  const second = scanned(client);
  const [one, two] = [first, second].map((scan) => new Stepped(client.pool.fabric, scan));
  while (skiplist.rebuilds === 0) one.step();
  for (let steps = 0; steps < 50; steps++) two.step();
  assert.equal(skiplist.rebuilds, 1);
  first.return([]);
  assert.deepEqual(interleave([two]), [KEYS]);
  assert.equal(skiplist.rebuilds, 2);
});

test('an operation that waits for one that gets no further says so', (t) => {
  const client = newClient(t, {}, { patience: { pollsMax: 100 } });
  for (const key of KEYS) put(client, key, 'v');
  const one = new Stepped(client.pool.fabric, scanned(client));
  while (client.index.table.pairs[0].skiplist.rebuilds === 0) one.step();
  assert.throws(() => client.pool.run(scanned(client)), { code: 'SW_TIMEOUT' });
  assert.deepEqual(interleave([one]), [KEYS]);
});

test('a write builds no skiplist of which the log has come round: the next scan does', (t) => {
  const client = newClient(t);
  const writer = newClient(t, { handle: client.handle });
  const { skiplist } = client.index.table.pairs[0];
  const all = () => client.pool.run(scanned(client));
  put(writer, KEYS[0], 'v');
  assert.deepEqual(all(), KEYS.slice(0, 1));
  // Of 16 entries 8 are kept: it is followed when half of these were written.
  for (const key of KEYS.slice(1, 5)) put(client, key, 'v');
  assert.equal(skiplist.applied, 1);
  put(client, KEYS[5], 'v');
  assert.equal(skiplist.applied, 6);
  for (const key of KEYS.slice(6, 30)) put(writer, key, 'v');
  put(client, KEYS[30], 'v');
  assert.equal(skiplist.rebuilds, 1);
  assert.equal(skiplist.applied, 6);
  assert.deepEqual(all(), KEYS.slice(0, 31));
  assert.equal(skiplist.rebuilds, 2);
});
