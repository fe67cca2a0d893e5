import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Prng } from '../../../random/prng.ts';
import {
  claimAhead,
  foundText,
  requestFor,
  Stepped,
} from '../../../store/tests/support/by-hand.ts';
import { DELEGATING, type Delegating } from '../../../store/tests/support/delegating.ts';
import { numbered } from '../../../store/tests/support/pools.ts';
import { runTogether } from '../../../verbs/tests/support/run-together.ts';
import {
  ALWAYS,
  type Condition,
  EXCHANGE,
  IF_ABSENT,
  IF_PRESENT,
  IF_VERSION,
  INSERTED,
  type Outcome,
  REFUSED,
  REPLACED,
} from '../../contract.ts';
import type { Request } from '../request.ts';

const CHAINED = 20_000;

interface State {
  text: string;
  version: number;
}

interface Planned {
  value: string;
  condition: Condition;
  expected: number;
  first: number;
}

/** What the write does to the key, and what its caller hears. */
function apply(state: State | undefined, { value, condition, expected, first }: Planned) {
  const needsRecord = condition === IF_PRESENT || condition === IF_VERSION;
  const refused = state
    ? condition === IF_ABSENT || (condition === IF_VERSION && state.version !== expected)
    : needsRecord;
  if (refused) return { state, outcome: REFUSED as Outcome };
  const version = state ? state.version + 1 : first;
  const outcome: Outcome = state ? REPLACED : INSERTED;
  return { state: { text: value, version }, outcome };
}

function assertFound(
  { pool, index }: Delegating,
  request: Request,
  state: State | undefined,
): void {
  if (state === undefined) return;
  pool.run(index.records.complete(request));
  assert.deepEqual([foundText(request), request.found.version], [state.text, state.version]);
}

for (const { name, delegating, another } of DELEGATING) {
  test(`${name}: writes that wait for one are merged into one CAS and one record`, (t) => {
    const client = delegating(t);
    const { pool, index } = client;
    const requests = numbered('v', 20).map((value, i) => requestFor(client, 'k', value, 1000 * i));
    const outcomes: Outcome[] = [];
    claimAhead(client, 1);
    pool.run(index.write(requestFor(client, 'other', 'v'), ALWAYS));
    const before = pool.fabric.traffic.snapshot();
    runTogether(
      pool.fabric,
      requests.map((request) => index.write(request, ALWAYS)),
      outcomes,
    );
    const after = pool.fabric.traffic.snapshot();
    assert.deepEqual(outcomes, [INSERTED, ...Array(19).fill(REPLACED)]);
    // The first goes alone, because nobody had queued when it began; then 1 CAS for all the rest.
    assert.equal(after.compareAndSwaps - before.compareAndSwaps, 2);
    requests.forEach((request, i) => {
      assert.equal(request.record.version, i);
      if (i > 0)
        assert.deepEqual([foundText(request), request.found.version], [`v${i - 1}`, i - 1]);
    });
    const search = requestFor(client, 'k');
    assert.ok(pool.run(index.search(search)));
    assert.deepEqual([foundText(search), search.found.version], ['v19', 19]);
  });

  test(`${name}: merged writes end as if each had been made after the other`, (t) => {
    const client = delegating(t);
    const { pool, index } = client;
    const prng = Prng.fromSeed(11);
    const conditions = [ALWAYS, IF_ABSENT, IF_PRESENT, IF_VERSION, EXCHANGE] as const;
    let merged = 0;
    for (let round = 0; round < 400; round++) {
      const key = `key ${round}`;
      let state: State | undefined;
      if (prng.below(2) === 0) {
        pool.run(index.write(requestFor(client, key, 'before', 500), ALWAYS));
        state = { text: 'before', version: 500 };
      }
      const plans = Array.from({ length: 2 + prng.below(6) }, (_, i): Planned => {
        const value = `${round}/${i}`.padEnd(prng.below(20) === 0 ? CHAINED : 0, '.');
        const expected = 500 + prng.below(4);
        return { value, condition: conditions[prng.below(5)], expected, first: 499 + i };
      });
      const requests = plans.map(({ value, first }) => requestFor(client, key, value, first));
      const before = pool.fabric.traffic.snapshot().compareAndSwaps;
      const outcomes: Outcome[] = [];
      const failed = runTogether(
        pool.fabric,
        plans.map(({ condition, expected }, i) => index.write(requests[i], condition, expected)),
        outcomes,
      );
      assert.equal(failed, undefined);
      let applied = 0;
      plans.forEach((plan, i) => {
        const met = state;
        const { state: next, outcome } = apply(state, plan);
        assert.equal(outcomes[i], outcome, `round ${round}, write ${i}`);
        if (outcome !== REFUSED) applied++;
        if (outcome !== REFUSED) assert.equal(requests[i].record.version, next?.version);
        if (outcome !== INSERTED) assertFound(client, requests[i], met);
        state = next;
      });
      const swaps = pool.fabric.traffic.snapshot().compareAndSwaps - before;
      merged += Math.max(0, applied - swaps);
      const search = requestFor(client, key);
      assert.equal(pool.run(index.search(search)), state !== undefined);
      assertFound(client, search, state);
    }
    assert.ok(merged > 200, `${merged} writes were done by the CAS of another`);
    assert.ok(index.counters.otherCarrier > 0);
  });

  test(`${name}: a group whose leader finds the pool full is not lost with it`, (t) => {
    const client = delegating(t, { size: 32 * 2 ** 20 });
    const { pool, index } = client;
    const large = 'x'.repeat(40 * 2 ** 20);
    const requests = [
      requestFor(client, 'k', 'first'),
      requestFor(client, 'k', 'second'),
      requestFor(client, 'k', large),
      requestFor(client, 'k', 'fourth'),
    ];
    const outcomes: (Outcome | undefined)[] = [];
    const failed = runTogether(
      pool.fabric,
      [ALWAYS, ALWAYS, IF_PRESENT, IF_ABSENT].map((condition, i) =>
        index.write(requests[i], condition as Condition),
      ),
      outcomes,
    );
    assert.match(String(failed?.error), /full/);
    const search = requestFor(client, 'k');
    assert.ok(pool.run(index.search(search)));
    // The leader of the group hears of it, and the others make attempts of their own.
    assert.equal(foundText(search), 'first');
    assert.deepEqual(outcomes, [INSERTED, undefined, undefined, REFUSED]);
  });

  test(`${name}: a write that queues behind another client is done on what that one has left`, (t) => {
    const client = delegating(t);
    const other = another(t, { handle: client.handle });
    const { pool, index } = client;
    const writes = ['a', 'b', 'c'].map((value, i) => requestFor(client, 'k', value, 100 * i));
    const [first, second, third] = writes.map(
      (request, i) => new Stepped(pool.fabric, index.write(request, i === 2 ? IF_ABSENT : ALWAYS)),
    );
    first.step();
    other.pool.run(other.index.write(requestFor(other, 'k', 'theirs', 7000), ALWAYS));
    assert.equal(first.finish(), REPLACED);
    second.step();
    // The group has looked, and the record is removed before its CAS.
    second.step();
    other.pool.run(other.index.remove(requestFor(other, 'k')));
    assert.equal(second.finish(), INSERTED);
    assert.equal(third.finish(), REFUSED);
    assert.equal(foundText(writes[2]), 'b');
    assert.deepEqual([writes[1].record.version, writes[2].found.version], [100, 100]);
  });
}
