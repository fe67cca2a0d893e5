import { INDEX_NAMES } from '../../../indexes/kinds.ts';
import { rounds } from '../../../random/tests/support/rounds.ts';
import type { IndexName } from '../../api.ts';

/** These indexes; all of them in a `*.campaign.test.ts` that imports the test. */
export function someIndexes(...usual: readonly IndexName[]): readonly IndexName[] {
  return rounds(0, 1) === 0 ? usual : (INDEX_NAMES as readonly IndexName[]);
}
