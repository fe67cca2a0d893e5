import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Prng } from '../../../../src/random/prng.ts';
import { POLICIES, type PolicyName, policyOf } from '../policies.ts';

const STEPS_EACH = 10;
const RUNS = 20_000;

/** The order in which actors of ten steps each took them, e.g. 000111…, without repetitions. */
function turns(name: PolicyName, seed: number, actors: number): string {
  const policy = policyOf(name, Prng.fromSeed(seed), actors * STEPS_EACH);
  const left = Array.from({ length: actors }, () => STEPS_EACH);
  let order = '';
  for (let step = 0; left.some((steps) => steps > 0); step++) {
    const candidates = left.flatMap((steps, actor) => (steps > 0 ? [actor] : []));
    const actor = policy.pick(candidates, step);
    left[actor]--;
    if (!order.endsWith(String(actor))) order += actor;
  }
  return order;
}

function share(wanted: (order: string) => boolean, actors: number): number {
  let count = 0;
  for (let seed = 0; seed < RUNS; seed++) {
    if (wanted(turns('priorities', seed, actors))) count++;
  }
  return count / RUNS;
}

test('priorities: a bug of depth 1 shows in one of n runs', () => {
  // The last of three actors goes first.
  assert.ok(share((order) => order.startsWith('2'), 3) > 0.9 / 3);
});

test('priorities: who was demoted later may go on before who was demoted earlier', () => {
  // 0 and then 1 stop on their way, 2 runs to its end, then either goes on first.
  const laterFirst = share((order) => order === '01210', 3);
  const earlierFirst = share((order) => order === '01201', 3);
  // Of depth 3: each of n k^2 runs at least, of those that draw this depth.
  const bound = 1 / 3 / (3 * STEPS_EACH) ** 2 / 7;
  assert.ok(laterFirst > bound, `${laterFirst}`);
  assert.ok(earlierFirst > bound, `${earlierFirst}`);
});

test('priorities: an actor that waits lets all others go first', () => {
  const policy = policyOf('priorities', Prng.fromSeed(1), 1000);
  const first = policy.pick([0, 1, 2], 5000);
  policy.paused(first);
  const second = policy.pick([0, 1, 2], 5001);
  policy.paused(second);
  const third = policy.pick([0, 1, 2], 5002);
  assert.deepEqual([first, second, third].sort(), [0, 1, 2]);
});

for (const name of POLICIES) {
  test(`${name} picks among those that can go on, and lets all of them get to their end`, () => {
    for (let seed = 0; seed < 200; seed++) {
      assert.deepEqual([...new Set(turns(name, seed, 4))].sort(), ['0', '1', '2', '3']);
    }
  });
}
