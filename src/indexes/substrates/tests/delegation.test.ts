import assert from 'node:assert/strict';
import { test } from 'node:test';
import { foundText, requestFor, Stepped } from '../../../store/tests/support/by-hand.ts';
import { DELEGATING, type Delegating } from '../../../store/tests/support/delegating.ts';
import { numbered } from '../../../store/tests/support/pools.ts';
import { runTogether } from '../../../verbs/tests/support/run-together.ts';
import { ALWAYS, type Outcome } from '../../contract.ts';

/** READs of a search for a key that meets nobody. */
function readsOfOne(client: Delegating): number {
  const { pool, index } = client;
  const before = pool.fabric.traffic.snapshot().reads;
  pool.run(index.search(requestFor(client, 'k')));
  return pool.fabric.traffic.snapshot().reads - before;
}

for (const { name, delegating, another } of DELEGATING) {
  test(`${name}: a search is served only by a READ that was posted after it had queued`, (t) => {
    const client = delegating(t);
    const other = another(t, { handle: client.handle });
    const { pool, index } = client;
    pool.run(index.write(requestFor(client, 'k', 'old'), ALWAYS));
    const alone = readsOfOne(client);
    const requests = [0, 1, 2].map(() => requestFor(client, 'k'));
    const [first, second, third] = requests.map(
      (request) => new Stepped(pool.fabric, index.search(request)),
    );
    // The first has read the bucket when another client updates; the others have queued behind it.
    first.step();
    other.pool.run(other.index.write(requestFor(other, 'k', 'new'), ALWAYS));
    assert.ok(first.finish());
    const { reads } = pool.fabric.traffic.snapshot();
    assert.ok(!second.done && !third.done);
    second.step();
    assert.ok(second.finish());
    assert.ok(third.finish());
    assert.equal(pool.fabric.traffic.snapshot().reads - reads, alone);
    assert.deepEqual(requests.map(foundText), ['old', 'new', 'new']);
  });

  test(`${name}: writes and searches of one key in flight share verbs and take turns`, (t) => {
    const client = delegating(t);
    const { pool, index } = client;
    const writes = numbered('v', 20).map((value) => requestFor(client, 'k', value));
    const outcomes: Outcome[] = [];
    const failed = runTogether(
      pool.fabric,
      writes.map((request) => index.write(request, ALWAYS)),
      outcomes,
    );
    assert.equal(failed, undefined);
    assert.equal(outcomes.filter((outcome) => outcome === 1).length, 1);
    assert.equal(index.counters.slotChanged ?? index.counters.itemChanged, 0);
    const alone = readsOfOne(client);
    const searches = Array.from({ length: 20 }, () => requestFor(client, 'k'));
    const before = pool.fabric.traffic.snapshot().reads;
    const found: boolean[] = [];
    runTogether(
      pool.fabric,
      searches.map((request) => index.search(request)),
      found,
    );
    assert.ok(found.every(Boolean));
    assert.ok(pool.fabric.traffic.snapshot().reads - before <= 2 * alone);
    for (const request of searches) assert.equal(foundText(request), 'v19');
    const absent = Array.from({ length: 5 }, () => requestFor(client, 'absent'));
    runTogether(
      pool.fabric,
      absent.map((request) => index.search(request)),
      found,
    );
    assert.deepEqual(found.slice(0, 5), [false, false, false, false, false]);
  });
}
