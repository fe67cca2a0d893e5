import assert from 'node:assert/strict';
import { test } from 'node:test';
import { foundText, requestFor, Stepped } from '../../../store/tests/support/by-hand.ts';
import { IF_ABSENT, INSERTED, type Outcome, REFUSED } from '../../contract.ts';
import { bringTo } from '../resizing/catch-up.ts';
import { resize } from '../resizing/resize.ts';
import { type Client, clients } from './support/clients.ts';

const ONE_BUCKET = { buckets: 1, threshold: 100 };

const insert = (client: Client, key: string, value = key) =>
  client.pool.run(client.index.write(requestFor(client, key, value), IF_ABSENT));

const remove = (client: Client, key: string) =>
  client.pool.run(client.index.remove(requestFor(client, key)));

const inserting = (client: Client, key: string, value: string) =>
  new Stepped<Outcome>(
    client.pool.fabric,
    client.index.write(requestFor(client, key, value), IF_ABSENT),
  );

function assertHas(client: Client, key: string, value: string): void {
  const request = requestFor(client, key);
  assert.ok(client.pool.run(client.index.search(request)), key);
  assert.equal(foundText(request), value);
  const problems: string[] = [];
  const problem = (text: string) => problems.push(text);
  client.pool.run(client.index.check({ problem, reachable: () => {}, progress: () => {} }));
  assert.deepEqual(problems, []);
}

test('a rival that was committed and moved away is not taken for a withdrawn one', (t) => {
  const [lower, upper, mover] = clients(t, 3, { ...ONE_BUCKET, level1: 2, level2: 2, resizes: 3 });
  // Its entry in level 2 leaves with the first resize.
  let key = '';
  for (let i = 0; key === ''; i++) {
    if ((requestFor(mover, `k${i}`).hash.h2 & 1) === 1) key = `k${i}`;
  }
  for (const each of ['a', 'b']) insert(mover, each);
  const higher = inserting(upper, key, 'of the higher');
  // READ, overflow, claim: its commit is next.
  for (let i = 0; i < 3; i++) higher.step();
  assert.ok(remove(mover, 'a'));
  const slow = inserting(lower, key, 'of the lower');
  // READ, READ below, claim in level 1, READ of the rival's record: withdrawing it is next.
  for (let i = 0; i < 4; i++) slow.step();
  assert.deepEqual([higher.verbs, slow.verbs], [1, 1]);
  assert.equal(higher.finish(), INSERTED);
  assert.ok(mover.pool.run(resize(mover.index.table)));
  mover.pool.run(bringTo(mover.index.table, 1, 0, 1));
  assert.equal(slow.finish(), REFUSED);
  assertHas(mover, key, 'of the higher');
});

test('a rival in a chain node that came after the plan is seen after the claim', (t) => {
  const [slow, other] = clients(t, 2, { ...ONE_BUCKET, level1: 1, level2: 1, resizes: 0 });
  for (const each of ['a', 'b', 'c']) insert(other, each);
  assert.ok(remove(other, 'b'));
  const late = inserting(slow, 'k', 'of the late one');
  // READ, READ below: the slot that came free is to be claimed next.
  for (let i = 0; i < 2; i++) late.step();
  assert.equal(insert(other, 'd'), INSERTED);
  assert.equal(insert(other, 'k', 'of the other'), INSERTED);
  assert.ok(other.index.table.retries.chainExtended > 0);
  assert.ok(remove(other, 'd'));
  assert.equal(late.finish(), REFUSED);
  assertHas(slow, 'k', 'of the other');
});

test('a claim in which the overflow bit is set meanwhile is committed all the same', (t) => {
  const [first, other] = clients(t, 2, { ...ONE_BUCKET, level1: 1, level2: 1, resizes: 0 });
  insert(other, 'a');
  assert.ok(remove(other, 'a'));
  const slow = inserting(first, 'k', 'v');
  // READ, claim: its commit is next.
  for (let i = 0; i < 2; i++) slow.step();
  assert.equal(slow.verbs, 1);
  assert.equal(insert(other, 'b'), INSERTED);
  const { steps } = slow;
  assert.equal(slow.finish(), INSERTED);
  assert.equal(slow.steps, steps + 2, 'one CAS that fails, and one that does not');
  assert.equal(first.index.table.retries.withdrawn, 0);
  for (const key of ['k', 'b']) assertHas(other, key, key === 'k' ? 'v' : 'b');
});
