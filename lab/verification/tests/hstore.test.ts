import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HSTORE_CANARIES } from '../canaries/hstore.ts';
import { POLICIES } from '../schedules/policies.ts';
import { newSimulationMemory, type RunOptions, runSchedule } from '../schedules/simulation.ts';
import { HSTORE_SUBJECT } from '../subjects/hstore.ts';

const SEEDS = 60;
const CANARY_SEEDS = 2000;

test('HStore: servers and clients die anywhere, histories and scans stay in order', () => {
  const memory = newSimulationMemory();
  let crashes = 0;
  let walks = 0;
  for (const policy of POLICIES) {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const report = runSchedule({ seed, policy, subject: HSTORE_SUBJECT }, memory);
      const { failure, timeline } = report;
      assert.equal(failure, undefined, `seed ${seed}, ${policy}: ${failure?.text}\n${timeline}`);
      crashes += report.crashes;
      walks += report.walks;
    }
  }
  assert.ok(crashes > 30 && walks > 30, `${crashes} deaths, ${walks} walks and scans`);
});

for (const canary of HSTORE_CANARIES) {
  test(`the canary is caught: ${canary.name}`, () => {
    const memory = newSimulationMemory();
    const caught = (options: RunOptions) => {
      return runSchedule(options, memory).failure?.kind === canary.caughtBy;
    };
    for (let seed = 1; seed <= CANARY_SEEDS; seed++) {
      if (POLICIES.some((policy) => caught({ seed, policy, canary }))) return;
    }
    assert.fail(`no failure of ${canary.caughtBy} in ${CANARY_SEEDS} seeds`);
  });
}
