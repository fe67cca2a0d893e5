import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  nearDeadlineCanary,
  nearLateUseCanary,
  nearOldEraCanary,
  nearOwnSlotAloneCanary,
  nearRecordFirstCanary,
  nearSlotAloneCanary,
  nearSumAloneCanary,
  nearVersionAloneCanary,
} from '../../canaries/near.ts';
import type { Canary } from '../../canary.ts';
import { CHIME_SUBJECT } from '../../subjects/chime.ts';
import { HOPSCOTCH_SUBJECT } from '../../subjects/hopscotch.ts';
import { HSTORE_SUBJECT } from '../../subjects/hstore.ts';
import { RACE_SUBJECT } from '../../subjects/race.ts';
import { SHARD_SUBJECT } from '../../subjects/shard.ts';
import type { Subject } from '../../subjects/subject.ts';
import { assertLinearizable, scopeOf, searched } from './support/searched.ts';

/** Scopes whose schedules are run with all crashes; long-scopes.campaign.test.ts has more. */
const EXHAUSTED: readonly [Subject, readonly string[]][] = [
  [RACE_SUBJECT, ['near-update']],
  [SHARD_SUBJECT, ['near-update']],
  [CHIME_SUBJECT, ['near-remove']],
  [HSTORE_SUBJECT, ['near-update', 'near-split']],
];

for (const [subject, names] of EXHAUSTED) {
  for (const name of names) {
    const { name: index } = subject.kind.manifest;
    test(`${index}: near reads are linearizable under every schedule and crash of ${name}`, () => {
      assertLinearizable(scopeOf(subject, name));
    });
  }
}

/** Without crashes: either few verbs change anything, or there are too many schedules. */
const UNBROKEN: readonly [Subject, string][] = [
  [RACE_SUBJECT, 'near-expire'],
  [SHARD_SUBJECT, 'near-expire'],
  [HOPSCOTCH_SUBJECT, 'near-expire'],
  [CHIME_SUBJECT, 'near-expire'],
];

for (const [subject, name] of UNBROKEN) {
  const { name: index } = subject.kind.manifest;
  test(`${index}: near reads are linearizable under every schedule of ${name}`, () => {
    const { failure, exhausted, schedules } = searched(scopeOf(subject, name), { crashes: false });
    assert.equal(failure?.text, undefined);
    assert.ok(exhausted && schedules > 3);
  });
}

/** All schedules of these take too long. */
const SOME: readonly [Subject, string][] = [
  [RACE_SUBJECT, 'near-reuse'],
  [RACE_SUBJECT, 'near-own-update'],
  [SHARD_SUBJECT, 'near-own-update'],
  [HOPSCOTCH_SUBJECT, 'near-own-update'],
  [CHIME_SUBJECT, 'near-own-update'],
  [RACE_SUBJECT, 'near-own-reuse'],
  [RACE_SUBJECT, 'near-split'],
  [SHARD_SUBJECT, 'near-split'],
  [SHARD_SUBJECT, 'near-migrate'],
  [SHARD_SUBJECT, 'near-kept-migrate'],
  [RACE_SUBJECT, 'near-kept-remove'],
  [HOPSCOTCH_SUBJECT, 'near-reinsert'],
  [CHIME_SUBJECT, 'near-reinsert'],
  [CHIME_SUBJECT, 'near-split'],
];
const ENOUGH = 200;

for (const [subject, name] of SOME) {
  const { name: index } = subject.kind.manifest;
  test(`${index}: near reads are linearizable under ${ENOUGH} schedules of ${name}`, () => {
    const enough = ({ schedules }: { schedules: number }) => schedules >= ENOUGH;
    const { failure } = searched(scopeOf(subject, name), { enough });
    assert.equal(failure?.text, undefined);
  });
}

const CAUGHT: readonly [Canary, Subject, string][] = [
  [nearSlotAloneCanary, RACE_SUBJECT, 'near-reuse'],
  [nearOwnSlotAloneCanary, RACE_SUBJECT, 'near-own-reuse'],
  [nearVersionAloneCanary, RACE_SUBJECT, 'near-reuse'],
  [nearRecordFirstCanary, RACE_SUBJECT, 'near-reuse'],
  [nearSumAloneCanary, HOPSCOTCH_SUBJECT, 'near-remove'],
  [nearSumAloneCanary, CHIME_SUBJECT, 'near-remove'],
  [nearDeadlineCanary, RACE_SUBJECT, 'near-expire'],
  [nearOldEraCanary, SHARD_SUBJECT, 'near-kept-migrate'],
  [nearLateUseCanary, RACE_SUBJECT, 'near-kept-remove'],
];

for (const [canary, subject, name] of CAUGHT) {
  test(`${subject.kind.manifest.name}: ${name} catches ${canary.name}`, () => {
    const { failure } = searched(scopeOf(subject, name), { canary });
    assert.match(failure?.text ?? '', new RegExp(`^${canary.caughtBy}`));
  });
}
