import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CHIME_CANARIES } from '../canaries/chime.ts';
import { chimeLateFollowerCanary } from '../canaries/late-follower.ts';
import { QUICK_SCOPES, scopes } from '../exhaustive/scope.ts';
import { searchScope } from '../exhaustive/search.ts';
import { POLICIES } from '../schedules/policies.ts';
import { commandFor, shrink } from '../schedules/shrink.ts';
import { newSimulationMemory, type RunOptions, runSchedule } from '../schedules/simulation.ts';
import { CHIME_SUBJECT } from '../subjects/chime.ts';
import type { Subject } from '../subjects/subject.ts';
import { findFailure } from './support/find-failure.ts';

const SEEDS = 125;
const SHRINK_MS = 10_000;

/** Programs with so many keys that the tree gets several levels of the smallest nodes. */
const DEEP: Subject = {
  ...CHIME_SUBJECT,
  parameters: (prng) => ({
    span: 2 + prng.below(2),
    neighbourhood: 2,
    inlineBytes: 16,
    fanout: 2 + prng.below(2),
    cacheKiB: 1 + prng.below(2),
    hotspots: 0,
    seed: prng.next32(),
  }),
  placesOfKey: () => 10,
};

/** Searches speculate, and read records before they know that they are still there. */
const SPECULATING: Subject = {
  ...DEEP,
  parameters: (prng, crowded) => ({ ...DEEP.parameters(prng, crowded), hotspots: 8 }),
  readsAhead: () => true,
};

const SUBJECTS = { CHIME: CHIME_SUBJECT, 'Deep CHIME': DEEP, 'Speculating CHIME': SPECULATING };

/** What all runs have done at least. */
const EXERCISED = { splits: 60, crashes: 15, walks: 45, sweeps: 12, refusals: 20 };

function explain(options: RunOptions): string {
  const report = runSchedule(options);
  const shrunk = shrink(options, report, { milliseconds: SHRINK_MS });
  return `${shrunk.report.failure?.text}\n${shrunk.report.timeline}\n${commandFor(shrunk.options)}`;
}

for (const policy of POLICIES) {
  for (const [name, subject] of Object.entries(SUBJECTS)) {
    test(`${name} is linearizable under ${SEEDS} ${policy} schedules`, () => {
      const memory = newSimulationMemory();
      const done = { splits: 0, crashes: 0, walks: 0, sweeps: 0, refusals: 0 };
      for (let seed = 1; seed <= SEEDS; seed++) {
        const report = runSchedule({ seed, policy, subject }, memory);
        if (report.failure) assert.fail(explain({ seed, policy, subject }));
        for (const row of Object.keys(done) as (keyof typeof done)[]) done[row] += report[row];
      }
      for (const [row, least] of Object.entries(EXERCISED)) {
        const count = done[row as keyof typeof done];
        assert.ok(count >= least, `${count} ${row}, not ${least}`);
      }
    });
  }
}

for (const scope of scopes(CHIME_SUBJECT).filter(({ name }) =>
  [...QUICK_SCOPES, 'shrink-search'].includes(name),
)) {
  test(`CHIME is linearizable under every schedule and crash of ${scope.name}`, () => {
    const search = searchScope(scope);
    let step = search.next();
    while (!step.done) step = search.next();
    assert.equal(step.value.failure?.text, undefined);
    assert.ok(step.value.exhausted && step.value.cut === 0);
  });
}

for (const planted of [...CHIME_CANARIES, chimeLateFollowerCanary]) {
  test(`the canary is caught: ${planted.name}`, () => {
    assert.ok(findFailure(planted, { subject: DEEP }, ['uniform']));
  });
}
