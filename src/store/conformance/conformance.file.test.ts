import { test } from 'node:test';
import { INDEX_KINDS } from '../../indexes/kinds.ts';
import type { IndexName } from '../api.ts';
import { KNOWN_FAILURES } from '../tests/support/known-failures.ts';
import { freshStore } from '../tests/support/pools.ts';
import { conformance } from './cases/index.ts';

/** One index without order and one with: `shm:`, the same fabric at another place, has them all. */
const INDEXES = ['race', 'chime'];

for (const { manifest } of INDEX_KINDS.filter(({ manifest: { name } }) => INDEXES.includes(name))) {
  const index = manifest.name as IndexName;
  conformance({
    test,
    name: `${index} on file:`,
    manifest,
    known: KNOWN_FAILURES,
    twins: ['sync'],
    bounded: false,
    open: (scope, options) => freshStore(scope, 'file', { index, ...options }),
  });
}
