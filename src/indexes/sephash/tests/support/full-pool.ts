import assert from 'node:assert/strict';
import { StepwellError } from '../../../../errors.ts';
import type { ByHand } from '../../../../store/tests/support/by-hand.ts';
import type { Operation } from '../../../../verbs/index.ts';
import { sweep } from '../../../sweep.ts';
import type { SepHashIndex } from '../../sephash.ts';

/** Whether the operation found memory, perhaps after the steps of store/calls/full-pool.ts. */
export function succeeds(
  { pool, index }: ByHand<SepHashIndex>,
  operation: () => Operation<unknown>,
): boolean {
  const remedies = [
    () => pool.betweenOperations(() => pool.reclaiming()) ?? false,
    () => (pool.betweenOperations(() => sweep(pool, index)) ?? 0) > 0,
  ];
  for (;;) {
    pool.enter();
    try {
      pool.run(operation());
      return true;
    } catch (error) {
      assert.ok(error instanceof StepwellError && error.code === 'SW_POOL_FULL', String(error));
    } finally {
      pool.exit();
    }
    let helped = false;
    while (!helped && remedies.length > 0) helped = remedies.shift()?.() ?? false;
    if (!helped) return false;
  }
}
