import { test } from 'node:test';
import { INDEX_KINDS } from '../../indexes/kinds.ts';
import type { IndexName } from '../api.ts';
import { KNOWN_FAILURES } from '../tests/support/known-failures.ts';
import { freshStore } from '../tests/support/pools.ts';
import { conformance } from './cases/index.ts';

for (const { manifest } of INDEX_KINDS) {
  const index = manifest.name as IndexName;
  conformance({
    test,
    name: `${index} on shm:`,
    manifest,
    known: KNOWN_FAILURES,
    twins: ['sync'],
    bounded: index === 'race',
    open: (scope, options) => freshStore(scope, 'shm', { index, ...options }),
  });
}
