import { test } from 'node:test';
import { RACE_MANIFEST } from '../indexes/race/race.ts';
import { conformance } from './test-support/conformance/index.ts';
import { KNOWN_FAILURES } from './test-support/known-failures.ts';
import { freshStore } from './test-support/pools.ts';

conformance({
  test,
  name: 'race on memory:',
  manifest: RACE_MANIFEST,
  known: KNOWN_FAILURES,
  largeValues: true,
  // Room for a value of 64 MiB and the one that replaces it.
  open: (scope, options) => freshStore(scope, 'memory', { size: 256 * 2 ** 20, ...options }),
});
