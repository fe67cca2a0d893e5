import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CHIME_SUBJECT } from '../../subjects/chime.ts';
import { HOPSCOTCH_SUBJECT } from '../../subjects/hopscotch.ts';
import { HSTORE_SUBJECT } from '../../subjects/hstore.ts';
import { RACE_SUBJECT } from '../../subjects/race.ts';
import { SEPHASH_SUBJECT } from '../../subjects/sephash.ts';
import { SHARD_SUBJECT } from '../../subjects/shard.ts';
import type { Subject } from '../../subjects/subject.ts';
import { assertLinearizable, scopeOf, searched } from './support/searched.ts';

/** Those that take longest of the scopes whose schedules can all be run. */
const SCOPES: readonly [Subject, string][] = [
  [RACE_SUBJECT, 'update-remove-search'],
  [RACE_SUBJECT, 'split-search'],
  [RACE_SUBJECT, 'increment-increment'],
  [RACE_SUBJECT, 'compare-reinsert'],
  [RACE_SUBJECT, 'expire-put'],
  [RACE_SUBJECT, 'near-reinsert'],
  [SEPHASH_SUBJECT, 'insert-insert'],
  [SEPHASH_SUBJECT, 'increment-increment'],
  [SEPHASH_SUBJECT, 'compare-update'],
  [SEPHASH_SUBJECT, 'evict-put'],
  [SEPHASH_SUBJECT, 'put-put'],
  [SEPHASH_SUBJECT, 'split-update'],
  [SEPHASH_SUBJECT, 'compact-put'],
  [SHARD_SUBJECT, 'put-put'],
  [SHARD_SUBJECT, 'insert-insert'],
  [SHARD_SUBJECT, 'increment-increment'],
  [SHARD_SUBJECT, 'put-put-vacate'],
  [SHARD_SUBJECT, 'near-reinsert'],
  [CHIME_SUBJECT, 'put-remove'],
  [CHIME_SUBJECT, 'increment-increment'],
  [CHIME_SUBJECT, 'near-update'],
  [HOPSCOTCH_SUBJECT, 'put-remove'],
  [HOPSCOTCH_SUBJECT, 'near-remove'],
  [HOPSCOTCH_SUBJECT, 'near-update'],
  [HSTORE_SUBJECT, 'near-reinsert'],
];

for (const [subject, name] of SCOPES) {
  const index = subject.kind.manifest.name;
  test(`${index} is linearizable under every schedule and crash of ${name}`, () => {
    assertLinearizable(scopeOf(subject, name));
  });
}

test('hstore: near reads are linearizable under every schedule of near-reuse', () => {
  const scope = scopeOf(HSTORE_SUBJECT, 'near-reuse');
  const { failure, exhausted } = searched(scope, { crashes: false });
  assert.equal(failure?.text, undefined);
  assert.ok(exhausted);
});
