import { test } from 'node:test';
import { INDEX_KINDS } from '../indexes/kinds.ts';
import type { IndexName } from './api.ts';
import { conformance } from './test-support/conformance/index.ts';
import { KNOWN_FAILURES } from './test-support/known-failures.ts';
import { freshStore } from './test-support/pools.ts';

for (const { manifest } of INDEX_KINDS) {
  const index = manifest.name as IndexName;
  conformance({
    test,
    name: `${index} on memory:`,
    manifest,
    known: KNOWN_FAILURES,
    largeValues: true,
    open: (scope, options) => freshStore(scope, 'memory', { index, ...options }),
  });
}
