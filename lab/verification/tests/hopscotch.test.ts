import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HOPSCOTCH_CANARIES } from '../canaries/hopscotch.ts';
import { QUICK_SCOPES, scopes } from '../exhaustive/scope.ts';
import { searchScope } from '../exhaustive/search.ts';
import { POLICIES } from '../schedules/policies.ts';
import { commandFor } from '../schedules/shrink.ts';
import { newSimulationMemory, runSchedule } from '../schedules/simulation.ts';
import { HOPSCOTCH_SUBJECT } from '../subjects/hopscotch.ts';
import { findFailure } from './support/find-failure.ts';

const SEEDS = 120;
/** The others have schedules by the ten thousand: `stepwell-lab verify hopscotch --scope all`. */
const SCOPES = ['put-search', 'put-remove'];

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

for (const scope of scopes(HOPSCOTCH_SUBJECT).filter(({ name }) => SCOPES.includes(name))) {
  test(`the hopscotch hash table under every schedule and crash of ${scope.name}`, () => {
    assert.ok(QUICK_SCOPES.includes(scope.name));
    const search = searchScope(scope);
    let step = search.next();
    while (!step.done) step = search.next();
    assert.equal(step.value.failure?.text, undefined);
    assert.ok(step.value.exhausted && step.value.cut === 0);
  });
}

for (const canary of HOPSCOTCH_CANARIES) {
  test(`the canary is caught: ${canary.name}`, () => {
    assert.ok(findFailure(canary, { subject: HOPSCOTCH_SUBJECT }, ['uniform']));
  });
}
