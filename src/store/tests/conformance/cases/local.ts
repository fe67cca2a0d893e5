import { test } from 'node:test';
import { INDEX_KINDS } from '../../../../indexes/kinds.ts';
import type { IndexName } from '../../../api.ts';
import { KNOWN_FAILURES } from '../../support/known-failures.ts';
import { freshStore, type PoolKind } from '../../support/pools.ts';
import { conformance, type Subject } from './index.ts';

/**
 * Half of what other tests take. V8 counts the whole pool as memory to collect, and the suite makes
 * a pool for each case.
 */
export const POOL_BYTES = 8 * 2 ** 20;

/** The suite on pools of this machine; `settings` of an index, which is left out without any. */
export function conformanceOn(
  kind: PoolKind,
  settings: (index: IndexName) => Partial<Subject> | undefined,
): void {
  for (const { manifest } of INDEX_KINDS) {
    const index = manifest.name as IndexName;
    const own = settings(index);
    if (own === undefined) continue;
    conformance({
      test,
      name: `${index} on ${kind}:`,
      manifest,
      known: KNOWN_FAILURES,
      open: (scope, options) => freshStore(scope, kind, { size: POOL_BYTES, index, ...options }),
      ...own,
    });
  }
}
