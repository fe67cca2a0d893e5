import assert from 'node:assert/strict';
import type { Subject } from '../../../subjects/subject.ts';
import { type Scope, scopes } from '../../scope.ts';
import { type Coverage, type SearchOptions, searchScope } from '../../search.ts';

export function scopeOf(subject: Subject, name: string): Scope {
  const [scope] = scopes(subject, name);
  assert.ok(scope, `${name} is no scope`);
  return scope;
}

/** Searches all schedules, or stops when it has `enough`; returns what the search covered. */
export function searched(
  scope: Scope,
  { enough = () => false, ...options }: SearchOptions & { enough?: (so: Coverage) => boolean } = {},
): Coverage {
  const search = searchScope(scope, options);
  for (;;) {
    const { done, value } = search.next();
    if (done || enough(value)) return value;
  }
}

/** Every schedule of the scope, and every crash, gives a history in order. */
export function assertLinearizable(scope: Scope): void {
  const { failure, exhausted, cut, schedules, crashed } = searched(scope);
  assert.equal(failure?.text, undefined);
  assert.ok(exhausted && cut === 0);
  assert.ok(crashed > 5 && schedules > crashed, `${schedules} schedules, ${crashed} deaths`);
}
