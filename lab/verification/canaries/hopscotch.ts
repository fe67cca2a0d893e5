import type { HopscotchIndex } from '../../../src/indexes/hopscotch/hopscotch.ts';
import type { Canary } from '../canary.ts';

/** A bug in the hopscotch hash table, planted in one client's handle. */
function canary(name: string, plant: (index: HopscotchIndex) => void): Canary {
  return {
    name: `hopscotch: ${name}`,
    caughtBy: 'linearizability',
    hopscotch: (index) => {
      plant(index);
      return index;
    },
  };
}

function* nothing() {}

export const HOPSCOTCH_CANARIES: readonly Canary[] = [
  canary('links that are remembered are trusted for ever', ({ table }) => {
    table.directory.isKnown = () => true;
  }),
  canary('the upper half of a split gets no entry', ({ table }) => {
    table.directory.fill = nothing;
  }),
  canary('a link that says that its segment was split is taken for the one before', ({ table }) => {
    const { directory } = table;
    const { learn } = directory;
    directory.learn = (suffix, link, epoch) => {
      learn.call(directory, suffix & 0, link, epoch);
    };
  }),
];
