import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rounds } from '../../../src/random/tests/support/rounds.ts';
import { hastyChoiceCanary } from '../canaries/hasty-choice.ts';
import { POLICIES } from '../schedules/policies.ts';
import { newSimulationMemory, runSchedule } from '../schedules/simulation.ts';
import { CHIME_SUBJECT } from '../subjects/chime.ts';
import { SUBJECTS } from '../subjects/index.ts';
import { findFailure } from './support/find-failure.ts';

const SEEDS = rounds(5, 60);
/** Removals are evictions: half of them empty a leaf, of an index that has some. */
const SWARM = { evictions: 100, removes: 30, haste: 0 };

for (const subject of SUBJECTS) {
  test(`${subject.kind.manifest.name}: an eviction removes the record that a sample has met, or none`, () => {
    const memory = newSimulationMemory();
    for (const policy of POLICIES) {
      for (let seed = 1; seed <= SEEDS; seed++) {
        const { failure } = runSchedule({ seed, policy, subject, swarm: SWARM }, memory);
        assert.equal(failure, undefined, `${policy} schedule of seed ${seed}`);
      }
    }
  });
}

test(`the canary is caught: ${hastyChoiceCanary.name}`, () => {
  const found = findFailure(hastyChoiceCanary, { subject: CHIME_SUBJECT, swarm: SWARM });
  assert.ok(found);
});
