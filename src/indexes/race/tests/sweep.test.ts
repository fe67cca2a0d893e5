import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ByHand,
  clientByHand,
  requestFor,
  Stepped,
} from '../../../store/tests/support/by-hand.ts';
import { numbered, type Scope } from '../../../store/tests/support/pools.ts';
import type { Address, Operation } from '../../../verbs/index.ts';
import { ALWAYS, IF_ABSENT, INSERTED } from '../../contract.ts';
import { eachReachable } from '../../sweep.ts';

const SMALL = { race: { groups: 2, associativity: 4, initialDepth: 0 } };
const KEYS = numbered('key ', 12);

function clients(scope: Scope): [ByHand, ByHand] {
  const first = clientByHand(scope, SMALL);
  const second = clientByHand(scope, { ...SMALL, handle: first.handle });
  for (const { pool } of [first, second]) {
    pool.enter();
    scope.after(() => pool.exit());
  }
  return [first, second];
}

const run = <T>({ pool }: ByHand, operation: Operation<T>): T => pool.run(operation);
const put = (client: ByHand, key: string) =>
  run(client, client.index.write(requestFor(client, key, 'v'), ALWAYS));
const has = (client: ByHand, key: string) =>
  run(client, client.index.search(requestFor(client, key)));

function reachable(client: ByHand): Set<Address> {
  const found = new Set<Address>();
  run(
    client,
    eachReachable(client.index, (address) => void found.add(address)),
  );
  return found;
}

// biome-ignore lint/correctness/useYield: no client is in the way of the grace period
function* passed() {
  return true;
}

for (const goesOn of [false, true]) {
  const name = goesOn ? 'that goes on begins again' : 'that has died leaves nothing behind';
  test(`an inserter whose claim is withdrawn and ${name}`, (t) => {
    let claims = 0;
    for (let stop = 0; ; stop++) {
      const [client, other] = clients(t);
      for (const key of KEYS) put(client, key);
      const before = reachable(client);
      const request = requestFor(other, 'one more', 'v');
      const insertion = new Stepped(other.pool.fabric, other.index.write(request, IF_ABSENT));
      while (!insertion.done && insertion.steps < stop) insertion.step();
      const wasDone = insertion.done;
      const isWithout = !has(client, 'one more');
      const isClaimed = isWithout && reachable(client).size > before.size;
      assert.equal(run(client, client.index.compact(passed)), isClaimed ? 1 : 0);
      if (isClaimed) claims++;
      if (isWithout) assert.deepEqual(reachable(client), before);
      if (goesOn) assert.equal(insertion.finish(), INSERTED);
      else if (isWithout) assert.equal(put(client, 'one more'), INSERTED);
      for (const key of [...KEYS, 'one more']) assert.ok(has(client, key), key);
      const problems: string[] = [];
      const problem = (text: string) => problems.push(text);
      const sink = { problem, reachable: () => {}, progress: () => {} };
      assert.equal(run(client, client.index.check(sink)), KEYS.length + 1);
      assert.deepEqual(problems, []);
      if (wasDone) break;
    }
    assert.ok(claims > 0, 'there was a claim');
  });
}
