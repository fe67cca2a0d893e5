import assert from 'node:assert/strict';
import { test } from 'node:test';
import { requestFor, Stepped } from '../../../store/tests/support/by-hand.ts';
import { numbered, type Scope } from '../../../store/tests/support/pools.ts';
import type { Address } from '../../../verbs/index.ts';
import { IF_ABSENT, INSERTED } from '../../contract.ts';
import { eachReachable } from '../../sweep.ts';
import { closeEmptyChains } from '../overflow.ts';
import { type Client, clients, get, put, remove } from './support/clients.ts';

const CROWDED = { buckets: 2, level1: 2, level2: 1, resizes: 4 };
const KEYS = numbered('key ', 40);
const FEW = KEYS.slice(0, 16);

/** Nobody resizes the table, also when chains grow. */
function crowded(scope: Scope, count: number): Client[] {
  const all = clients(scope, count, CROWDED);
  for (const { index } of all) {
    Object.defineProperty(index.table, 'crowded', { get: () => false, set: () => {} });
  }
  return all;
}

function reachable({ pool, index }: Client): Set<Address> {
  const found = new Set<Address>();
  pool.run(eachReachable(index, (address) => void found.add(address)));
  return found;
}

/** As a sweep compacts; nobody is in the way of the grace period. */
function compact({ pool, index }: Client): number {
  return pool.run(index.compact(passed));
}

// biome-ignore lint/correctness/useYield: no waiting
function* passed() {
  return true;
}

function assertWhole({ pool, index }: Client): void {
  const problems: string[] = [];
  const problem = (text: string) => problems.push(text);
  pool.run(index.check({ problem, reachable: () => {}, progress: () => {} }));
  assert.deepEqual(problems, []);
}

test('of an emptied table only its segments are left after a compaction', (t) => {
  const [client, other] = crowded(t, 2);
  const before = reachable(client);
  for (const key of KEYS) put(client, key);
  for (const key of KEYS) assert.ok(remove(other, key));
  assert.ok(reachable(client).size > before.size, 'there are chains');
  assert.ok(compact(other) > 0);
  assert.deepEqual(reachable(client), before);
  assert.equal(compact(other), 0);
  for (const key of KEYS) assert.equal(put(client, key), INSERTED);
  for (const key of KEYS) assert.equal(get(other, key), key);
  assertWhole(client);
});

test('a claim that a dead client has left is withdrawn, wherever it died', (t) => {
  let claims = 0;
  for (let stop = 0; ; stop++) {
    const [client, dying] = crowded(t, 2);
    const before = reachable(client);
    for (const key of KEYS) put(client, key);
    const request = requestFor(dying, 'one more', 'v');
    const last = new Stepped(dying.pool.fabric, dying.index.write(request, IF_ABSENT));
    while (!last.done && last.steps < stop) last.step();
    if (last.done) break;
    const isWithout = get(client, 'one more') === undefined;
    for (const key of KEYS) assert.ok(remove(client, key));
    claims += isWithout && reachable(client).has(request.record.block) ? 1 : 0;
    compact(client);
    if (isWithout) assert.deepEqual(reachable(client), before);
    for (const key of [...KEYS, 'one more']) put(client, key, 'new');
    for (const key of [...KEYS, 'one more']) assert.equal(get(client, key), 'new');
    assertWhole(client);
  }
  assert.ok(claims > 0, 'it died with a claim');
});

test('an inserter whose claim is withdrawn between any two steps begins again', (t) => {
  for (let stop = 0; ; stop++) {
    const [client, slow] = crowded(t, 2);
    for (const key of KEYS) put(client, key);
    for (const key of KEYS.slice(20)) remove(client, key);
    const request = requestFor(slow, 'one more', 'v');
    const insertion = new Stepped(slow.pool.fabric, slow.index.write(request, IF_ABSENT));
    while (!insertion.done && insertion.steps < stop) insertion.step();
    const wasDone = insertion.done;
    compact(client);
    assert.equal(insertion.finish(), INSERTED);
    for (const key of [...KEYS.slice(0, 20), 'one more']) {
      assert.equal(get(client, key), key === 'one more' ? 'v' : key);
    }
    assertWhole(client);
    if (wasDone) break;
  }
});

test('others may insert between any two steps of a compaction, and it may end there', (t) => {
  for (const dies of [false, true]) {
    for (let stop = 0; ; stop++) {
      const [client, other, dead] = crowded(t, 3);
      for (const key of FEW) put(client, key);
      const request = requestFor(dead, 'of the dead', 'v');
      const last = new Stepped(dead.pool.fabric, dead.index.write(request, IF_ABSENT));
      while (!reachable(client).has(request.record.block)) last.step();
      for (const key of FEW) remove(client, key);
      const compaction = new Stepped(client.pool.fabric, client.index.compact(passed));
      while (!compaction.done && compaction.steps < stop) compaction.step();
      const wasDone = compaction.done;
      if (dies && !wasDone) compaction.dieAfter(stop % 3);
      for (const key of [...FEW, 'of the dead']) assert.equal(put(other, key, 'new'), INSERTED);
      if (!dies) compaction.finish();
      for (const key of [...FEW, 'of the dead']) assert.equal(get(other, key), 'new');
      assertWhole(other);
      if (wasDone) break;
    }
  }
});

test('a chain in use keeps its empty slots open when empty chains are looked for', (t) => {
  const [client, other] = crowded(t, 2);
  for (const key of KEYS) put(client, key);
  const before = reachable(client).size;
  // Nodes that stand first in their chains empty, keys behind them stay.
  for (const key of KEYS.slice(0, 30)) assert.ok(remove(client, key));
  const nodes = reachable(client).size;
  assert.equal(client.pool.run(closeEmptyChains(client.index.table)), 0);
  for (const key of KEYS.slice(0, 30)) assert.equal(put(other, key), INSERTED);
  assert.equal(reachable(client).size, before, `${nodes} blocks before`);
  assertWhole(client);
});
