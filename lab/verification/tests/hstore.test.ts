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

/** Half of the removals clear some buckets. */
const CLEARING = { evictions: 100, removes: 30 };

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

test('HStore: buckets are cleared while others write, scan, serve and die', () => {
  const memory = newSimulationMemory();
  for (const policy of POLICIES) {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const options = { seed, policy, subject: HSTORE_SUBJECT, swarm: CLEARING };
      const { failure, timeline } = runSchedule(options, memory);
      assert.equal(failure, undefined, `seed ${seed}, ${policy}: ${failure?.text}\n${timeline}`);
    }
  }
});

/** A scan from the first key polls for its answer in a block to which it has written nothing. */
const SCANNED = [
  { seed: 5015, walks: 30, serves: 20 },
  { seed: 5181, walks: 20, serves: 10 },
] as const;

for (const { seed, walks, serves } of SCANNED) {
  test(`HStore holds in the uniform schedule of seed ${seed}, with clears and scans`, () => {
    const swarm = { evictions: 100, removes: 25, walks, serves };
    const options = { seed, policy: 'uniform', subject: HSTORE_SUBJECT, swarm } as const;
    const { failure, timeline } = runSchedule(options);
    assert.equal(failure, undefined, `${failure?.text}\n${timeline}`);
  });
}

for (const canary of HSTORE_CANARIES) {
  test(`the canary is caught: ${canary.name}`, () => {
    assert.ok(findFailure(canary), `no failure of ${canary.caughtBy}`);
  });
}
