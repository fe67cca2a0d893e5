import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CANARIES } from './canaries.ts';
import { POLICIES } from './policies.ts';
import { commandFor, shrink } from './shrink.ts';
import { type RunOptions, runSchedule } from './simulation.ts';

const SEEDS = 1500;
const CANARY_SEEDS = 2000;
const SHRINK_MS = 10_000;

for (const policy of POLICIES) {
  test(`RACE is linearizable under ${SEEDS} ${policy} schedules`, () => {
    let splits = 0;
    let freed = 0;
    let crashes = 0;
    for (let seed = 1; seed <= SEEDS; seed++) {
      const report = runSchedule({ seed, policy });
      if (report.failure) assert.fail(explain({ seed, policy }));
      splits += report.splits;
      freed += report.freed;
      crashes += report.crashes;
    }
    // A checker that exercises nothing finds nothing.
    assert.ok(splits > 20 && freed > 1000 && crashes > 50, `${splits} ${freed} ${crashes}`);
  });
}

for (const canary of CANARIES) {
  test(`the canary is caught: ${canary.name}`, () => {
    assert.ok(findFailure({ canary }) !== undefined, `not in ${CANARY_SEEDS} seeds`);
  });
}

test('early re-use is caught by its consequences alone', () => {
  const canary = CANARIES.find(({ name }) => name.startsWith('blocks are re-used'));
  assert.ok(findFailure({ canary, grace: false }) !== undefined);
});

test('one seed replays everything', () => {
  for (const policy of POLICIES) {
    const first = runSchedule({ seed: 7, policy });
    assert.deepEqual(runSchedule({ seed: 7, policy }), first);
  }
});

test('a failure shrinks to few calls and still fails when it is replayed', () => {
  // One that fails often: a rare failure needs more schedules than a test has time for.
  const canary = CANARIES.find(({ name }) => name.startsWith('blocks are re-used'));
  const options = findFailure({ canary }) as RunOptions;
  const shrunk = shrink(options, runSchedule(options), SHRINK_MS);
  assert.ok(shrunk.report.operations < runSchedule(options).operations);
  assert.deepEqual(runSchedule(shrunk.options).failure, shrunk.report.failure);
});

function findFailure(fixed: Partial<RunOptions>): RunOptions | undefined {
  for (let seed = 1; seed <= CANARY_SEEDS; seed++) {
    for (const policy of POLICIES) {
      const options = { seed, policy, ...fixed };
      if (runSchedule(options).failure) return options;
    }
  }
  return undefined;
}

function explain(options: RunOptions): string {
  const { options: smaller, report } = shrink(options, runSchedule(options), SHRINK_MS);
  const { kind, text } = report.failure as NonNullable<typeof report.failure>;
  return `${kind}: ${text}\n${report.timeline}\n  seed ${options.seed}\n  ${commandFor(smaller)}`;
}
