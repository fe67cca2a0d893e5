import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rounds } from '../../../src/random/tests/support/rounds.ts';
import { HSTORE_CANARIES } from '../canaries/hstore.ts';
import { POLICIES } from '../schedules/policies.ts';
import { newSimulationMemory, runSchedule } from '../schedules/simulation.ts';
import { HSTORE_SUBJECT } from '../subjects/hstore.ts';
import { findFailure } from './support/find-failure.ts';

const SEEDS = rounds(20, 300);

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
  assert.ok(
    crashes > SEEDS / 2 && walks > SEEDS / 2,
    `${crashes} deaths, ${walks} walks and scans`,
  );
});

/** Clients that live give up requests, and others sweep before these are answered. */
const GIVEN_UP = [
  { seed: 140, chunks: 6 },
  { seed: 185, chunks: 7 },
] as const;

for (const { seed, chunks } of GIVEN_UP) {
  test(`HStore holds in the stall schedule of seed ${seed} in a pool of ${chunks} chunks`, () => {
    const swarm = { resizes: 50, chunks };
    const { failure, timeline } = runSchedule({
      seed,
      policy: 'stall',
      subject: HSTORE_SUBJECT,
      swarm,
    });
    assert.equal(failure, undefined, `${failure?.text}\n${timeline}`);
  });
}

for (const canary of HSTORE_CANARIES) {
  test(`the canary is caught: ${canary.name}`, () => {
    assert.ok(findFailure(canary), `no failure of ${canary.caughtBy}`);
  });
}
