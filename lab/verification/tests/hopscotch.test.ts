import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HOPSCOTCH_CANARIES } from '../canaries/hopscotch.ts';
import { QUICK_SCOPES, scopes } from '../exhaustive/scope.ts';
import { searchScope } from '../exhaustive/search.ts';
import { searchStops } from '../exhaustive/stops.ts';
import { POLICIES } from '../schedules/policies.ts';
import { commandFor } from '../schedules/shrink.ts';
import { newSimulationMemory, runSchedule } from '../schedules/simulation.ts';
import { HOPSCOTCH_SUBJECT } from '../subjects/hopscotch.ts';
import { findFailure } from './support/find-failure.ts';

const SEEDS = 120;
/** The others have schedules by the ten thousand: `stepwell-lab verify hopscotch --scope all`. */
const SCOPES = ['put-search', 'put-remove'];
const STOPPED = ['split-search', 'update-remove-search', 'compare-update', 'compare-reinsert'];

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
  const { splits, crashes, walks, sweeps } = done;
  assert.ok(splits > 300 && crashes > 60 && walks > 90 && sweeps > 20, JSON.stringify(done));
});

for (const scope of scopes(HOPSCOTCH_SUBJECT)) {
  if (SCOPES.includes(scope.name)) {
    test(`the hopscotch hash table under every schedule and crash of ${scope.name}`, () => {
      assert.ok(QUICK_SCOPES.includes(scope.name));
      const search = searchScope(scope);
      let step = search.next();
      while (!step.done) step = search.next();
      assert.equal(step.value.failure?.text, undefined);
      assert.ok(step.value.exhausted && step.value.cut === 0);
    });
  } else if (STOPPED.includes(scope.name)) {
    test(`the hopscotch hash table with a stop and a death in ${scope.name}`, () => {
      const { failure, executions, crashed } = searchStops(scope, { crashes: true });
      assert.equal(failure, undefined);
      assert.ok(crashed > 60 && executions > crashed, `${crashed} deaths`);
    });
  }
}

test('the bounded search of a split finds a client that writes no intent', () => {
  const scope = scopes(HOPSCOTCH_SUBJECT).find(({ name }) => name === 'split-search');
  const canary = HOPSCOTCH_CANARIES.find(({ name }) => name.endsWith('no intent is written'));
  assert.ok(scope && canary);
  assert.ok(searchStops(scope, { crashes: true, canary }).failure);
});

for (const canary of HOPSCOTCH_CANARIES) {
  test(`the canary is caught: ${canary.name}`, () => {
    assert.ok(findFailure(canary, { subject: HOPSCOTCH_SUBJECT }, ['uniform']));
  });
}
