import { CHIME, type ChimeIndex, shapeFrom } from '../../../src/indexes/chime/chime.ts';
import { ChimeGeometry, unitsBeside } from '../../../src/indexes/chime/geometry.ts';
import { LeafWalk } from '../../../src/indexes/chime/leaf-walk.ts';
import { isLive, isVacant, recordOf } from '../../../src/indexes/chime/slot.ts';
import type { Address, Operation } from '../../../src/verbs/index.ts';
import { giveUpSoon, type Subject } from './subject.ts';

/** Nothing is speculated on: that would READ records that were given back. */
const CLIENT = { cacheKiB: 64, hotspots: 0 };

export const CHIME_SUBJECT: Subject = {
  kind: CHIME,
  parameters(prng, crowded) {
    const span = 2 + prng.below(crowded ? 3 : 6);
    const neighbourhood = 2 + prng.below(Math.min(span, 4) - 1);
    const fanout = 2 + prng.below(3);
    const seed = prng.next32();
    // Split at once, or hop as long as that helps.
    return { span, neighbourhood, fanout, ...CLIENT, seed, splitAt: seed % 2 === 0 ? 1 : 101 };
  },
  smallest: { span: 2, neighbourhood: 2, fanout: 2, ...CLIENT, seed: 7, splitAt: 101 },
  place: ({ h2 }, parameters) => String(new ChimeGeometry(shapeFrom(parameters)).homeOf(h2)),
  fingerprint: ({ h1 }) => h1 >>> 24,
  placesOfKey: ({ neighbourhood }) => neighbourhood,
  walksOnce: true,
  // Nodes have sizes that records do not have: those are never read when they are free.
  readsAhead: (units) => unitsBeside(units) === units,
  // Clients of one tree need not agree.
  vary(index, prng) {
    const { techniques, cache } = (index as ChimeIndex).tree;
    techniques.delegation = prng.below(2) === 0;
    // The trees are too small for a book that is copied now and then.
    if (prng.below(2) === 0) cache.bookWordsMin = 0;
  },
  hurry(index) {
    (index as ChimeIndex).tree.patience = { polls: 1, microseconds: 1 };
  },
  hasten: (index, attempts) => giveUpSoon((index as ChimeIndex).tree, attempts),
  pending: (index) => pendingRecords(index as ChimeIndex),
};

/** Insertions that nobody commits or withdraws any more, until their keys are met. */
function* pendingRecords({ tree }: ChimeIndex): Operation<Address[]> {
  const found: Address[] = [];
  tree.cache.begin();
  const leaves = new LeafWalk(tree, new Uint8Array(0));
  while (leaves.position !== undefined) {
    const { slots } = yield* leaves.next();
    for (let i = 0; i < slots.length; i += 2) {
      const low = slots[i];
      const high = slots[i + 1];
      if (!isVacant(low, high) && !isLive(low, high)) found.push(recordOf(low, high));
    }
  }
  return found;
}
