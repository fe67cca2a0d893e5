import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rounds } from '../../../src/random/tests/support/rounds.ts';
import { HOPSCOTCH_CANARIES } from '../canaries/hopscotch.ts';
import { QUICK_SCOPES } from '../exhaustive/scope.ts';
import { searchStops } from '../exhaustive/stops.ts';
import { assertLinearizable, scopeOf } from '../exhaustive/tests/support/searched.ts';
import { POLICIES } from '../schedules/policies.ts';
import { commandFor } from '../schedules/shrink.ts';
import { newSimulationMemory, runSchedule } from '../schedules/simulation.ts';
import { HOPSCOTCH_SUBJECT } from '../subjects/hopscotch.ts';
import { findFailure } from './support/find-failure.ts';

const SEEDS = rounds(25, 500);
/** What each seed has done at least, on average. */
const EXERCISED = { splits: 2.5, crashes: 0.5, walks: 0.75, sweeps: 0.17 };
/** Scopes that have schedules by the ten thousand: `stepwell-lab verify hopscotch --scope all`. */
const STOPPED = ['split-search', 'update-remove-search', 'compare-update', 'compare-reinsert'];
/** One client's calls in flight on one leaf, which are combined. */
const TOGETHER = ['together-search', 'together-remove', 'together-increment'];

test(`the hopscotch hash table is linearizable under ${SEEDS} schedules of each policy`, () => {
  const memory = newSimulationMemory();
  const done = { splits: 0, crashes: 0, walks: 0, sweeps: 0 };
  for (const policy of POLICIES) {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const options = { seed, policy, subject: HOPSCOTCH_SUBJECT };
      const report = runSchedule(options, memory);
      const { failure } = report;
      if (failure) assert.fail(`${failure.kind}: ${failure.text}\n  ${commandFor(options)}`);
      for (const row of Object.keys(done) as (keyof typeof done)[]) done[row] += report[row];
    }
  }
  for (const [row, least] of Object.entries(EXERCISED)) {
    const count = done[row as keyof typeof done];
    assert.ok(count > least * SEEDS, `${count} ${row}`);
  }
});

test('the hopscotch hash table under every schedule and crash of put-search', () => {
  assert.ok(['put-search', 'put-remove'].every((name) => QUICK_SCOPES.includes(name)));
  assertLinearizable(scopeOf(HOPSCOTCH_SUBJECT, 'put-search'));
});

for (const [names, deaths] of [
  [TOGETHER, 10],
  [STOPPED, 60],
] as const) {
  for (const name of names) {
    test(`the hopscotch hash table with a stop and a death in ${name}`, () => {
      const scope = scopeOf(HOPSCOTCH_SUBJECT, name);
      const { failure, executions, crashed } = searchStops(scope, { crashes: true });
      assert.equal(failure, undefined);
      assert.ok(crashed > deaths && executions > crashed, `${crashed} deaths`);
    });
  }
}

for (const [name, bug] of [
  ['together-search', 'a combined change is answered before it is written'],
  ['split-search', 'no intent is written'],
] as const) {
  test(`the bounded search of ${name} finds the canary: ${bug}`, () => {
    const canary = HOPSCOTCH_CANARIES.find((one) => one.name.endsWith(bug));
    assert.ok(canary);
    assert.ok(searchStops(scopeOf(HOPSCOTCH_SUBJECT, name), { crashes: true, canary }).failure);
  });
}

for (const canary of HOPSCOTCH_CANARIES) {
  test(`the canary is caught: ${canary.name}`, () => {
    assert.ok(findFailure(canary, { subject: HOPSCOTCH_SUBJECT }, ['uniform']));
  });
}
