import assert from 'node:assert/strict';
import { test } from 'node:test';
import { blindRemovalCanary, timelessSearchCanary } from '../../canaries/leaving.ts';
import { CHIME_SUBJECT } from '../../subjects/chime.ts';
import { HOPSCOTCH_SUBJECT } from '../../subjects/hopscotch.ts';
import { HSTORE_SUBJECT } from '../../subjects/hstore.ts';
import { RACE_SUBJECT } from '../../subjects/race.ts';
import { SEPHASH_SUBJECT } from '../../subjects/sephash.ts';
import { SHARD_SUBJECT } from '../../subjects/shard.ts';
import type { Subject } from '../../subjects/subject.ts';
import { type StopOptions, searchStops } from '../stops.ts';
import { assertLinearizable, scopeOf } from './support/searched.ts';

type Deaths = NonNullable<StopOptions['crashes']>;

/**
 * Scopes that are searched whole, or with stops and such deaths. long-scopes.campaign.test.ts
 * searches more of them whole.
 */
interface Searched {
  subject: Subject;
  whole: readonly string[];
  stopped: Readonly<Record<string, Deaths>>;
}

const INDEXES: Readonly<Record<string, Searched>> = {
  RACE: {
    subject: RACE_SUBJECT,
    whole: ['expire-search', 'evict-search', 'evict-put'],
    stopped: { 'expire-put-search': 'unstopped', 'evict-put-search': 'unstopped' },
  },
  SepHash: {
    subject: SEPHASH_SUBJECT,
    whole: ['expire-search', 'evict-search'],
    stopped: { 'expire-put-search': 'unstopped', 'evict-put-search': 'unstopped' },
  },
  SHARD: {
    subject: SHARD_SUBJECT,
    whole: ['expire-search', 'evict-search', 'evict-put'],
    stopped: { 'expire-put-search': true, 'evict-put-search': 'unstopped' },
  },
  CHIME: {
    subject: CHIME_SUBJECT,
    whole: [],
    stopped: { 'expire-put-search': 'unstopped', 'evict-put-search': 'unstopped' },
  },
  hopscotch: {
    subject: HOPSCOTCH_SUBJECT,
    whole: [],
    stopped: { 'expire-put-search': 'unstopped', 'evict-put-search': 'unstopped' },
  },
  HStore: {
    subject: HSTORE_SUBJECT,
    whole: ['evict-search'],
    stopped: { 'expire-search': 'unstopped', 'expire-put': 'unstopped', 'evict-put': 'unstopped' },
  },
};

for (const [index, { subject, whole, stopped }] of Object.entries(INDEXES)) {
  for (const name of whole) {
    test(`${index}: records leave under every schedule and crash of ${name}`, () => {
      assertLinearizable(scopeOf(subject, name));
    });
  }
  for (const [name, crashes] of Object.entries(stopped)) {
    test(`${index}: records leave with a stop, and with a death, in ${name}`, () => {
      const { failure, executions, crashed } = searchStops(scopeOf(subject, name), { crashes });
      assert.equal(failure, undefined);
      assert.ok(crashed > 10 && executions > 60, `${executions} executions, ${crashed} deaths`);
    });
  }

  const blind = Object.keys(stopped).filter((name) => name.includes('put'));
  for (const name of blind) {
    test(`${index}: a removal that compares no version is caught in ${name}`, () => {
      const { failure } = searchStops(scopeOf(subject, name), { canary: blindRemovalCanary });
      assert.match(failure ?? '', /linearizability/);
    });
  }

  test(`${index}: a search that looks at no time is caught in expire-search`, () => {
    const canary = timelessSearchCanary;
    const { failure } = searchStops(scopeOf(subject, 'expire-search'), { canary });
    assert.match(failure ?? '', /linearizability/);
  });
}
