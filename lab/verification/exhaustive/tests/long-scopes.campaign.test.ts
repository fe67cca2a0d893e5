import { test } from 'node:test';
import { CHIME_SUBJECT } from '../../subjects/chime.ts';
import { HOPSCOTCH_SUBJECT } from '../../subjects/hopscotch.ts';
import { RACE_SUBJECT } from '../../subjects/race.ts';
import { SEPHASH_SUBJECT } from '../../subjects/sephash.ts';
import { SHARD_SUBJECT } from '../../subjects/shard.ts';
import type { Subject } from '../../subjects/subject.ts';
import { assertLinearizable, scopeOf } from './support/searched.ts';

/** Those that take longest of the scopes whose schedules can all be run. */
const SCOPES: readonly [Subject, string][] = [
  [RACE_SUBJECT, 'update-remove-search'],
  [RACE_SUBJECT, 'split-search'],
  [SEPHASH_SUBJECT, 'put-put'],
  [SEPHASH_SUBJECT, 'split-update'],
  [SHARD_SUBJECT, 'put-put'],
  [CHIME_SUBJECT, 'put-remove'],
  [CHIME_SUBJECT, 'increment-increment'],
  [HOPSCOTCH_SUBJECT, 'put-remove'],
];

for (const [subject, name] of SCOPES) {
  const index = subject.kind.manifest.name;
  test(`${index} is linearizable under every schedule and crash of ${name}`, () => {
    assertLinearizable(scopeOf(subject, name));
  });
}
