import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rounds } from '../../../src/random/tests/support/rounds.ts';
import { POLICIES } from '../schedules/policies.ts';
import { newSimulationMemory, runSchedule } from '../schedules/simulation.ts';
import { SUBJECTS } from '../subjects/index.ts';

const SEEDS = rounds(6, 100);

for (const subject of SUBJECTS) {
  const { name } = subject.kind.manifest;
  if (name === 'sephash') continue;
  test(`${name}: near reads are linearizable in random schedules`, () => {
    const memory = newSimulationMemory();
    for (const policy of POLICIES) {
      for (let seed = 1; seed <= SEEDS; seed++) {
        const { failure } = runSchedule({ seed, policy, subject, near: true }, memory);
        assert.equal(failure, undefined, `${policy} schedule of seed ${seed}: ${failure?.text}`);
      }
    }
  });
}
