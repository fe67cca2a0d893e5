import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CANARIES } from '../../canaries/index.ts';
import { RACE_SUBJECT } from '../../subjects/race.ts';
import { SEPHASH_SUBJECT } from '../../subjects/sephash.ts';
import { QUICK_SCOPES, type Scope, scopes } from '../scope.ts';
import { clientOf, ScopeModel } from '../scope-model.ts';
import { type Coverage, type SearchOptions, searchScope } from '../search.ts';

function searched(
  scope: Scope,
  { enough = () => false, ...options }: SearchOptions & { enough?: (so: Coverage) => boolean } = {},
): Coverage {
  const search = searchScope(scope, options);
  for (;;) {
    const { done, value } = search.next();
    if (done || enough(value)) return value;
  }
}

for (const scope of scopes(RACE_SUBJECT).filter(({ name }) => QUICK_SCOPES.includes(name))) {
  test(`RACE is linearizable under every schedule and crash of ${scope.name}`, () => {
    const { failure, exhausted, cut, schedules, crashed } = searched(scope);
    assert.equal(failure?.text, undefined);
    assert.ok(exhausted && cut === 0);
    assert.ok(crashed > 10 && schedules > crashed);
  });
}

/** Of the scopes of SepHash, those whose schedules are run within seconds. */
const SEPHASH_SCOPES = [
  'put-search',
  'put-put',
  'insert-insert',
  'put-remove',
  'increment-increment',
  'compare-update',
  'compare-reinsert',
  'merge-search',
  'split-search',
  'split-update',
  'reuse',
  'compact-late-walk',
];

for (const scope of scopes(SEPHASH_SUBJECT).filter(({ name }) => SEPHASH_SCOPES.includes(name))) {
  test(`SepHash is linearizable under every schedule and crash of ${scope.name}`, () => {
    const { failure, exhausted, cut, schedules, crashed } = searched(scope);
    assert.equal(failure?.text, undefined);
    assert.ok(exhausted && cut === 0);
    assert.ok(crashed > 5 && schedules > crashed);
  });
}

test('a SepHash write that returns before its filter bit is set is caught in put-search', () => {
  const canary = CANARIES.find(({ name }) => name.startsWith('a SepHash write'));
  const scope = scopes(SEPHASH_SUBJECT).find(({ name }) => name === 'put-search');
  assert.ok(canary && scope);
  assert.ok(searched(scope, { canary }).failure);
});

test('a SepHash compaction without a grace period is caught in compact-late-walk', () => {
  const canary = CANARIES.find(({ name }) => name.startsWith('a SepHash compaction'));
  const scope = scopes(SEPHASH_SUBJECT).find(({ name }) => name === 'compact-late-walk');
  assert.ok(canary && scope);
  assert.ok(searched(scope, { canary }).failure);
});

// All schedules of this scope take too long. Among these a merge retires the block to which the
// compaction is about to copy a MainSegment home.
test('SepHash withstands a client that stops once, anywhere in compact-merge', () => {
  const scope = scopes(SEPHASH_SUBJECT).find(({ name }) => name === 'compact-merge');
  assert.ok(scope);
  const model = new ScopeModel(scope);
  for (const client of [0, 1]) {
    let steps = 0;
    while (stopsAfter(model, client, steps)) {
      assert.equal(model.verdict(), undefined);
      steps++;
    }
    assert.ok(steps > 50, `${steps} steps`);
  }
});

/** Lets the client stand still after so many steps, until the other has finished. */
function stopsAfter(model: ScopeModel, client: number, steps: number): boolean {
  model.begin();
  let done = 0;
  for (let enabled = model.enabled(); enabled.length > 0; enabled = model.enabled()) {
    const isFirst = (id: number) => (clientOf(id) === client) === done < steps;
    const id = enabled.find(isFirst) ?? enabled[0];
    if (clientOf(id) === client) done++;
    model.perform(id);
  }
  return done > steps;
}

const CAUGHT: [canary: string, scope: string][] = [
  ['published insert', 'put-put-vacate'],
  ['a search whose miss', 'split-search'],
  ['blocks are re-used', 'reuse'],
  ['an update that expects', 'put-remove'],
  ['a removal that compares', 'compare-update'],
  ['a removal that compares', 'compare-reinsert'],
];

for (const [begin, name] of CAUGHT) {
  test(`the canary is caught in ${name}: ${begin}`, () => {
    const canary = CANARIES.find((one) => one.name.startsWith(begin));
    const [scope] = scopes(RACE_SUBJECT).filter((one) => one.name === name);
    assert.ok(canary && scope);
    assert.ok(searched(scope, { canary }).failure);
  });
}

test('a search sees a put before, while or after it is claimed, and two real-time orders', () => {
  const [scope] = scopes(RACE_SUBJECT).filter(({ name }) => name === 'put-search');
  assert.equal(searched(scope, { crashes: false }).schedules, 5);
});

test('a program too long to finish is given up, and counted', () => {
  const [scope] = scopes(RACE_SUBJECT).filter(({ name }) => name === 'put-put-impatient');
  const { cut, schedules } = searched(scope, {
    crashes: false,
    enough: (coverage) => coverage.cut >= 3,
  });
  assert.equal(cut, 3);
  assert.ok(schedules > 0);
});

test('the same search covers the same schedules', () => {
  const [scope] = scopes(RACE_SUBJECT).filter(({ name }) => name === 'put-remove');
  assert.deepEqual(searched(scope), searched(scope));
});
