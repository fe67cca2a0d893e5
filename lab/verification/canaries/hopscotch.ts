import type { HopscotchIndex } from '../../../src/indexes/hopscotch/hopscotch.ts';
import type { Canary } from '../canary.ts';
import type { FailureKind } from '../checks/failure.ts';

/** A bug in the hopscotch hash table, planted in one client's handle. */
function canary(
  name: string,
  caughtBy: FailureKind,
  plant: (index: HopscotchIndex) => void,
): Canary {
  return {
    name: `hopscotch: ${name}`,
    caughtBy,
    hopscotch: (index) => {
      plant(index);
      return index;
    },
  };
}

function* nothing() {}

export const HOPSCOTCH_CANARIES: readonly Canary[] = [
  canary('links that are remembered are trusted for ever', 'error', ({ table }) => {
    table.directory.isKnown = () => true;
  }),
  canary('the upper half of a split gets no entry', 'error', ({ table }) => {
    table.directory.fill = nothing;
  }),
  canary(
    'a link that says that its segment was split is taken for the one before',
    'linearizability',
    ({ table }) => {
      const { directory } = table;
      const { learn } = directory;
      directory.learn = (suffix, link, epoch) => {
        learn.call(directory, suffix & 0, link, epoch);
      };
    },
  ),
];
