import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rounds } from '../../../src/random/tests/support/rounds.ts';
import { blindRemovalCanary, timelessSearchCanary } from '../canaries/leaving.ts';
import { POLICIES, type PolicyName } from '../schedules/policies.ts';
import { newSimulationMemory, runSchedule } from '../schedules/simulation.ts';
import type { Swarm } from '../schedules/swarm.ts';
import { SUBJECTS } from '../subjects/index.ts';
import { findFailure } from './support/find-failure.ts';

const SEEDS = rounds(3, 60);
/** Records expire while a write, or the note of a use, waits for a lock or for other writes. */
const BUSY: Partial<Swarm> = { expiries: 90, writes: 30, removes: 3, walks: 0, deaths: 0 };

interface Late {
  seed: number;
  policy: PolicyName;
  swarm: Partial<Swarm>;
}

const busy = (seed: number): Late => ({ seed, policy: 'uniform', swarm: BUSY });
const SLID: Late = { seed: 3521, policy: 'stall', swarm: {} };
/**
 * Schedules in which a use revived an expired item (142), writes behind an expired one of the same
 * lock met it (165), a conditional write was told that it had replaced nothing (79), and a write
 * met one before it whose sliding deadline had passed while both waited (3521).
 */
const LATE: Partial<Record<string, readonly Late[]>> = {
  hopscotch: [busy(142), busy(165), SLID],
  chime: [busy(165), SLID],
  hstore: [busy(79)],
};

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

  for (const late of LATE[name] ?? []) {
    test(`${name}: what has expired meanwhile is absent, schedule ${late.seed}`, () => {
      const { failure } = runSchedule({ ...late, subject });
      assert.equal(failure, undefined, failure?.text);
    });
  }

  for (const canary of [blindRemovalCanary, timelessSearchCanary]) {
    test(`${name}: the canary is caught: ${canary.name}`, () => {
      assert.ok(findFailure(canary, { subject }), `no failure of ${canary.caughtBy}`);
    });
  }
}
