import { test } from 'node:test';
import { INDEX_KINDS } from '../../../indexes/kinds.ts';
import type { IndexName } from '../../api.ts';
import { KNOWN_FAILURES } from '../../tests/support/known-failures.ts';
import { freshStore } from '../../tests/support/pools.ts';
import { conformance, type Subject } from './index.ts';

/** The suite on every index in memory. */
export function conformanceOnMemory(some: Partial<Subject> = {}): void {
  for (const { manifest } of INDEX_KINDS) {
    const index = manifest.name as IndexName;
    conformance({
      test,
      name: `${index} on memory:`,
      manifest,
      known: KNOWN_FAILURES,
      open: (scope, options) => freshStore(scope, 'memory', { index, ...options }),
      ...some,
    });
  }
}
