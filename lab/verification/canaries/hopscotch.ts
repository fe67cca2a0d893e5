import { HOPSCOTCH, type HopscotchIndex } from '../../../src/indexes/hopscotch/hopscotch.ts';
import type { Canary } from '../canary.ts';
import { LEAF_BUGS } from './leaf.ts';

export const HOPSCOTCH_CANARIES: readonly Canary[] = LEAF_BUGS.map(({ name, caughtBy, plant }) => ({
  name: `hopscotch: ${name}`,
  caughtBy,
  kind: HOPSCOTCH,
  index: (index: HopscotchIndex) => {
    plant(index.table);
    index.newRequest = () => index.table.newRequest();
    return index;
  },
}));
