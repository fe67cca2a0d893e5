import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rounds } from '../../../src/random/tests/support/rounds.ts';
import { POLICIES } from '../schedules/policies.ts';
import { commandFor } from '../schedules/shrink.ts';
import { newSimulationMemory, runSchedule } from '../schedules/simulation.ts';
import { SHARD_SUBJECT } from '../subjects/shard.ts';

const SEEDS = rounds(25, 500);

test(`SHARD is linearizable under ${SEEDS} schedules of each policy`, () => {
  const memory = newSimulationMemory();
  let growths = 0;
  let crashes = 0;
  for (const policy of POLICIES) {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const options = { seed, policy, subject: SHARD_SUBJECT };
      const report = runSchedule(options, memory);
      const { failure } = report;
      if (failure) assert.fail(`${failure.kind}: ${failure.text}\n  ${commandFor(options)}`);
      growths += report.splits;
      crashes += report.crashes;
    }
  }
  assert.ok(growths > 8 * SEEDS && crashes > 0.4 * SEEDS, `${growths} moves, ${crashes} deaths`);
});
