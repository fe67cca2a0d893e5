import { test } from 'node:test';
import { RACE_MANIFEST } from '../indexes/race/race.ts';
import { conformance } from './test-support/conformance/index.ts';
import { KNOWN_FAILURES } from './test-support/known-failures.ts';
import { freshStore } from './test-support/pools.ts';

conformance({
  test,
  name: 'race on file:',
  manifest: RACE_MANIFEST,
  known: KNOWN_FAILURES,
  open: (scope, options) => freshStore(scope, 'file', options),
});
