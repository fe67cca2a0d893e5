import assert from 'node:assert/strict';
import { test } from 'node:test';
import { blindRemovalCanary, timelessSearchCanary } from '../canaries/leaving.ts';
import { POLICIES } from '../schedules/policies.ts';
import { newSimulationMemory, runSchedule } from '../schedules/simulation.ts';
import { SUBJECTS } from '../subjects/index.ts';
import { findFailure } from './support/find-failure.ts';

const SEEDS = 6;

for (const subject of SUBJECTS) {
  const { name } = subject.kind.manifest;
  test(`${name}: records expire for all clients at once, and sweeps take out no others`, () => {
    const memory = newSimulationMemory();
    for (const policy of POLICIES) {
      for (let seed = 1; seed <= SEEDS; seed++) {
        const { failure } = runSchedule({ seed, policy, subject, swarm: { expiries: 60 } }, memory);
        assert.equal(failure, undefined, `${policy} schedule of seed ${seed}: ${failure?.text}`);
      }
    }
  });

  for (const canary of [blindRemovalCanary, timelessSearchCanary]) {
    test(`${name}: the canary is caught: ${canary.name}`, () => {
      assert.ok(findFailure(canary, { subject }), `no failure of ${canary.caughtBy}`);
    });
  }
}
