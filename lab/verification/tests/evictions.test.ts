import assert from 'node:assert/strict';
import { test } from 'node:test';
import { POLICIES } from '../schedules/policies.ts';
import { newSimulationMemory, runSchedule } from '../schedules/simulation.ts';
import { CHIME_SUBJECT } from '../subjects/chime.ts';
import { HOPSCOTCH_SUBJECT } from '../subjects/hopscotch.ts';
import { HSTORE_SUBJECT } from '../subjects/hstore.ts';
import { RACE_SUBJECT } from '../subjects/race.ts';
import { SEPHASH_SUBJECT } from '../subjects/sephash.ts';
import { SHARD_SUBJECT } from '../subjects/shard.ts';

const SEEDS = 12;
const SUBJECTS = {
  RACE: RACE_SUBJECT,
  SHARD: SHARD_SUBJECT,
  SepHash: SEPHASH_SUBJECT,
  CHIME: CHIME_SUBJECT,
  hopscotch: HOPSCOTCH_SUBJECT,
  HStore: HSTORE_SUBJECT,
};

for (const [name, subject] of Object.entries(SUBJECTS)) {
  test(`${name}: an eviction removes the record that a sample has met, or none`, () => {
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
