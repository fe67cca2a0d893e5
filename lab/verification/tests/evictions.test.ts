import assert from 'node:assert/strict';
import { test } from 'node:test';
import { POLICIES } from '../schedules/policies.ts';
import { newSimulationMemory, runSchedule } from '../schedules/simulation.ts';
import { SUBJECTS } from '../subjects/index.ts';

const SEEDS = 12;

for (const subject of SUBJECTS) {
  test(`${subject.kind.manifest.name}: an eviction removes the record that a sample has met, or none`, () => {
    const memory = newSimulationMemory();
    for (const policy of POLICIES) {
      for (let seed = 1; seed <= SEEDS; seed++) {
        const swarm = { evictions: 100, removes: 30, haste: 0 };
        const { failure } = runSchedule({ seed, policy, subject, swarm }, memory);
        assert.equal(failure, undefined, `${policy} schedule of seed ${seed}`);
      }
    }
  });
}
