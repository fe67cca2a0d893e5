import assert from 'node:assert/strict';
import { test } from 'node:test';
import { searchStops } from '../../exhaustive/stops.ts';
import { scopeOf } from '../../exhaustive/tests/support/searched.ts';
import { CHIME_SUBJECT } from '../../subjects/chime.ts';

/** Their bounded search takes longest; the bugs that it finds are planted in chime.test.ts. */
export const LONG_CHIME_SCOPES = ['split-late-search', 'shrink-search', 'shrink-late-search'];

export function testStops(name: string): void {
  test(`CHIME withstands a client that stops once, and one that dies, in ${name}`, () => {
    const scope = scopeOf(CHIME_SUBJECT, name);
    const { failure, executions, crashed } = searchStops(scope, { crashes: true });
    assert.equal(failure, undefined);
    assert.ok(crashed > 90 && executions > crashed, `${crashed} deaths`);
  });
}
