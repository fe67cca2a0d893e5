import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rounds } from '../../../src/random/tests/support/rounds.ts';
import { POLICIES } from '../schedules/policies.ts';
import { newSimulationMemory, runSchedule } from '../schedules/simulation.ts';
import { SHARD_SUBJECT } from '../subjects/shard.ts';
import type { Subject } from '../subjects/subject.ts';

/** Always two partitions on two nodes, which every client moves to and fro. */
const MIGRATING: Subject = {
  ...SHARD_SUBJECT,
  parameters: (prng, crowded) => ({ ...SHARD_SUBJECT.parameters(prng, crowded), partitions: 2 }),
};

/**
 * In two of them another operation of a mover's finds that the migration is over; in 50_711 a root
 * stands where a client has known an earlier one.
 */
const KNOWN = [50_242, 50_711, 51_043];
const SEEDS = [...KNOWN, ...Array.from({ length: rounds(16, 100) }, (_, i) => i + 1)];

test('SHARD is linearizable, and keeps its memory, while tables go from node to node', () => {
  const memory = newSimulationMemory();
  let crashes = 0;
  let freed = 0;
  for (const policy of POLICIES) {
    for (const seed of SEEDS) {
      const { failure, ...report } = runSchedule({ seed, policy, subject: MIGRATING }, memory);
      if (failure) assert.fail(`seed ${seed}, ${policy}: ${failure.kind}: ${failure.text}`);
      crashes += report.crashes;
      freed += report.freed;
    }
  }
  assert.ok(crashes > 5 && freed > 800, `${crashes} deaths, ${freed} blocks given back`);
});
