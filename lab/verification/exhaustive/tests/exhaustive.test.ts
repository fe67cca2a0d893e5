import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CANARIES } from '../../canaries/index.ts';
import { sepHashCopiedMarksCanary } from '../../canaries/sephash-copied-marks.ts';
import { sepHashHastyCompactionCanary } from '../../canaries/sephash-hasty-compaction.ts';
import { sepHashLateMarkCanary } from '../../canaries/sephash-late-mark.ts';
import { HSTORE_SUBJECT } from '../../subjects/hstore.ts';
import { RACE_SUBJECT } from '../../subjects/race.ts';
import { SEPHASH_SUBJECT } from '../../subjects/sephash.ts';
import { SHARD_SUBJECT } from '../../subjects/shard.ts';
import type { Subject } from '../../subjects/subject.ts';
import { QUICK_SCOPES, scopes } from '../scope.ts';
import { searchStops } from '../stops.ts';
import { assertLinearizable, scopeOf, searched } from './support/searched.ts';

/** Those of RACE's quick scopes that long-scopes.campaign.test.ts has. */
const LONG = ['update-remove-search', 'split-search', 'increment-increment', 'compare-reinsert'];

/** Of each index the scopes whose schedules are run here; long-scopes.campaign.test.ts has more. */
const EXHAUSTED: Readonly<Record<string, [Subject, readonly string[]]>> = {
  // 'put-put-vacate' takes most of a minute: `verify race --scope all` has it, and canaries below.
  RACE: [RACE_SUBJECT, QUICK_SCOPES.filter((name) => ![...LONG, 'put-put-vacate'].includes(name))],
  SepHash: [
    SEPHASH_SUBJECT,
    [
      'put-search',
      'put-remove',
      'merge-search',
      'split-search',
      'reuse',
      'compact-late-walk',
      'release-search',
    ],
  ],
  SHARD: [
    SHARD_SUBJECT,
    ['put-search', 'put-remove', 'compare-update', 'compare-reinsert', 'migrate-search', 'reuse'],
  ],
  HStore: [HSTORE_SUBJECT, ['put-search', 'merge-search', 'split-search', 'reuse']],
};

for (const [index, [subject, names]] of Object.entries(EXHAUSTED)) {
  for (const scope of scopes(subject).filter(({ name }) => names.includes(name))) {
    test(`${index} is linearizable under every schedule and crash of ${scope.name}`, () => {
      assertLinearizable(scope);
    });
  }
}

for (const [canary, scope] of [
  [sepHashLateMarkCanary, 'put-search'],
  [sepHashHastyCompactionCanary, 'compact-late-walk'],
  [sepHashCopiedMarksCanary, 'compact-put'],
] as const) {
  test(`${canary.name} is caught in ${scope}`, () => {
    assert.ok(searched(scopeOf(SEPHASH_SUBJECT, scope), { canary }).failure);
  });
}

/**
 * All schedules of these scopes take too long. Among those that are run here a merge of SepHash
 * retires the block to which the compaction is about to copy a MainSegment home.
 */
const STOPPED: Readonly<Record<string, [Subject, readonly string[]]>> = {
  SepHash: [SEPHASH_SUBJECT, ['compact-merge', 'compare-reinsert']],
  SHARD: [
    SHARD_SUBJECT,
    ['split-search', 'split-insert', 'split-split', 'grown-insert', 'migrate-split'],
  ],
  HStore: [
    HSTORE_SUBJECT,
    ['put-put', 'put-remove', 'split-split', 'full-put-remove', 'full-update-remove'],
  ],
};

for (const [index, [subject, names]] of Object.entries(STOPPED)) {
  for (const name of names) {
    test(`${index} withstands a client that stops once, and one that dies, anywhere in ${name}`, () => {
      const { failure, executions } = searchStops(scopeOf(subject, name), { crashes: 'unstopped' });
      assert.equal(failure, undefined);
      assert.ok(executions > 40, `${executions} executions`);
    });
  }
}

const CAUGHT: [Subject, canary: string, scope: string][] = [
  [RACE_SUBJECT, 'published insert', 'put-put-vacate'],
  [RACE_SUBJECT, 'a search whose miss', 'split-search'],
  [RACE_SUBJECT, 'blocks are re-used', 'reuse'],
  [RACE_SUBJECT, 'an update that expects', 'put-remove'],
  [RACE_SUBJECT, 'a removal that compares', 'compare-update'],
  [RACE_SUBJECT, 'a removal that compares', 'compare-reinsert'],
  [SHARD_SUBJECT, 'published Ordered-CAS', 'put-put-vacate'],
  [HSTORE_SUBJECT, 'blocks are re-used', 'merge-search'],
];

for (const [subject, begin, name] of CAUGHT) {
  const index = subject.kind.manifest.name;
  test(`the canary is caught in ${name} of ${index}: ${begin}`, () => {
    const canary = CANARIES.find((one) => one.name.startsWith(begin));
    assert.ok(canary);
    assert.ok(searched(scopeOf(subject, name), { canary }).failure);
  });
}

test('a search sees a put before, while or after it is claimed, and two real-time orders', () => {
  const scope = scopeOf(RACE_SUBJECT, 'put-search');
  assert.equal(searched(scope, { crashes: false }).schedules, 5);
});

test('a program too long to finish is given up, and counted', () => {
  const scope = scopeOf(RACE_SUBJECT, 'put-put-impatient');
  const { cut, schedules } = searched(scope, {
    crashes: false,
    enough: (coverage) => coverage.cut >= 3,
  });
  assert.equal(cut, 3);
  assert.ok(schedules > 0);
});

test('the same search covers the same schedules', () => {
  const scope = scopeOf(RACE_SUBJECT, 'put-remove');
  assert.deepEqual(searched(scope), searched(scope));
});
