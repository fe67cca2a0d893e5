import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CHIME } from '../../../src/indexes/chime/chime.ts';
import { HOPSCOTCH } from '../../../src/indexes/hopscotch/hopscotch.ts';
import { HSTORE } from '../../../src/indexes/hstore/hstore.ts';
import { rounds } from '../../../src/random/tests/support/rounds.ts';
import { CANARIES } from '../canaries/index.ts';
import { sepHashCopiedMarksCanary } from '../canaries/sephash-copied-marks.ts';
import { sepHashHastyCompactionCanary } from '../canaries/sephash-hasty-compaction.ts';
import { sepHashNamelessPadCanary } from '../canaries/sephash-nameless-pad.ts';
import type { Canary } from '../canary.ts';
import { POLICIES } from '../schedules/policies.ts';
import { commandFor, shrink } from '../schedules/shrink.ts';
import { newSimulationMemory, type RunOptions, runSchedule } from '../schedules/simulation.ts';
import { STAYING } from '../schedules/swarm.ts';
import { SEPHASH_SUBJECT } from '../subjects/sephash.ts';
import { findFailure } from './support/find-failure.ts';

const SEEDS = rounds(60, 1400);
const SEPHASH_SEEDS = rounds(30, 600);
/**
 * What 350 runs of a policy do at least: a checker that exercises nothing finds nothing.
 */
const MEASURED = 350;
const EXERCISED = {
  splits: 39,
  freed: 1980,
  recycled: 9,
  crashes: 39,
  walks: 99,
  sweeps: 39,
  dutyCrashes: 7,
  refusals: 99,
  joins: 99,
  departures: 19,
  expulsions: 6,
};
const SHRINK_MS = 10_000;

for (const policy of POLICIES) {
  test(`RACE is linearizable under ${SEEDS} ${policy} schedules`, () => {
    const memory = newSimulationMemory();
    const done = Object.fromEntries(Object.keys(EXERCISED).map((name) => [name, 0]));
    for (let seed = 1; seed <= SEEDS; seed++) {
      const report = runSchedule({ seed, policy }, memory);
      if (report.failure) assert.fail(explain({ seed, policy }));
      for (const name of Object.keys(done)) done[name] += report[name as keyof typeof EXERCISED];
    }
    for (const [name, least] of Object.entries(EXERCISED)) {
      assert.ok(done[name] >= (least * SEEDS) / MEASURED, `${done[name]} ${name}`);
    }
  });
}

test(`SepHash is linearizable under ${SEPHASH_SEEDS} schedules of each policy`, () => {
  const memory = newSimulationMemory();
  let growths = 0;
  let crashes = 0;
  for (const policy of POLICIES) {
    for (let seed = 1; seed <= SEPHASH_SEEDS; seed++) {
      const options = { seed, policy, subject: SEPHASH_SUBJECT };
      const report = runSchedule(options, memory);
      if (report.failure) assert.fail(explain(options));
      growths += report.splits;
      crashes += report.crashes;
    }
  }
  assert.ok(
    growths > 6.7 * SEPHASH_SEEDS && crashes > SEPHASH_SEEDS / 3,
    `${growths} merges, ${crashes} deaths`,
  );
});

/** A client that gives up its sweep; and a maker of the store that dies in a pool of 6 chunks. */
const ONCE_FAILED = [
  { seed: 501384, policy: 'uniform', swarm: STAYING },
  { seed: 21019, policy: 'priorities', swarm: { ...STAYING, chunks: 6 } },
] as const;

for (const { seed, policy, swarm } of ONCE_FAILED) {
  test(`SepHash holds in the ${policy} schedule of seed ${seed}`, () => {
    const options = { seed, policy, subject: SEPHASH_SUBJECT, swarm };
    if (runSchedule(options).failure) assert.fail(explain(options));
  });
}

// Those of CHIME (in deeper trees), its hash table, HStore and every index have tests of their own.
const ELSEWHERE = CANARIES.filter(({ name, kind, index }) => {
  const isElsewhere = kind ? [CHIME, HSTORE, HOPSCOTCH].includes(kind) : index !== undefined;
  return isElsewhere || name.startsWith('CHIME');
});
// Random programs seldom compact without memory, or within an append: exhaustive scopes and
// sephash-pads.test.ts catch these.
const RARE = [sepHashHastyCompactionCanary, sepHashCopiedMarksCanary, sepHashNamelessPadCanary];
const OTHERS = CANARIES.filter((canary) => !ELSEWHERE.includes(canary) && !RARE.includes(canary));
for (const canary of OTHERS) {
  test(`the canary is caught: ${canary.name}`, () => {
    assert.ok(findFailure(canary), `no failure of ${canary.caughtBy}`);
  });
}

test('early re-use is caught by its consequences alone', () => {
  const canary = CANARIES.find(({ name }) => name.startsWith('blocks are re-used'));
  assert.ok(findFailure(canary as Canary, { grace: false }));
});

test('one seed replays everything', () => {
  for (const policy of POLICIES) {
    const first = runSchedule({ seed: 7, policy });
    assert.deepEqual(runSchedule({ seed: 7, policy }), first);
  }
});

test('a failure shrinks to few calls and still fails when it is replayed', () => {
  // A program of which many schedules fail, so that few have to be tried for each smaller one.
  const canary = CANARIES.find(({ name }) => name.startsWith('blocks are re-used'));
  const options: RunOptions = { seed: 26, policy: 'stall', canary };
  const report = runSchedule(options);
  const shrunk = shrink(options, report, { schedules: 8 });
  assert.ok(4 * shrunk.report.operations <= report.operations, `${shrunk.report.operations}`);
  assert.deepEqual(runSchedule(shrunk.options).failure, shrunk.report.failure);
});

function explain(options: RunOptions): string {
  const { options: smaller, report } = shrink(options, runSchedule(options), {
    milliseconds: SHRINK_MS,
  });
  const { kind, text } = report.failure as NonNullable<typeof report.failure>;
  return `${kind}: ${text}\n${report.timeline}\n  seed ${options.seed}\n  ${commandFor(smaller)}`;
}
