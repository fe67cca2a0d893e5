import { unitsBeside } from '../../../src/indexes/chime/geometry.ts';
import { slotsOf } from '../../../src/indexes/chime/node-io.ts';
import { isLive, isVacant, recordOf } from '../../../src/indexes/chime/slot.ts';
import type { IndexParameters } from '../../../src/indexes/contract.ts';
import { HopscotchGeometry } from '../../../src/indexes/hopscotch/geometry.ts';
import {
  HOPSCOTCH,
  type HopscotchIndex,
  shapeFrom,
} from '../../../src/indexes/hopscotch/hopscotch.ts';
import { SegmentWalk } from '../../../src/indexes/hopscotch/segments.ts';
import type { Address, Operation } from '../../../src/verbs/index.ts';
import { giveUpSoon, oftenOneNode, type Subject } from './subject.ts';

const DEPTH_LIMIT = 8;

export const HOPSCOTCH_SUBJECT: Subject = {
  kind: HOPSCOTCH,
  parameters(prng, crowded) {
    const span = 2 + prng.below(crowded ? 3 : 6);
    const neighbourhood = 2 + prng.below(Math.min(span, 4) - 1);
    const initialDepth = prng.below(2);
    const seed = prng.next32();
    return { span, neighbourhood, initialDepth, maxDepth: DEPTH_LIMIT, hotspots: 0, seed };
  },
  nodes: oftenOneNode,
  smallest: { span: 2, neighbourhood: 2, initialDepth: 0, maxDepth: 3, hotspots: 0, seed: 7 },
  place: ({ h2 }, parameters) => String(new HopscotchGeometry(shapeFrom(parameters)).homeOf(h2)),
  fingerprint: ({ h1 }) => h1 >>> 24,
  placesOfKey: ({ neighbourhood }: IndexParameters) => neighbourhood,
  walksOnce: true,
  // Segments have sizes that records do not have: those are never read when they are free.
  readsAhead: (units) => unitsBeside(units) === units,
  vary(index, prng) {
    (index as HopscotchIndex).table.techniques.delegation = prng.below(2) === 0;
  },
  hurry(index) {
    (index as HopscotchIndex).table.patience = { polls: 1, microseconds: 1 };
  },
  hasten: (index, attempts) => giveUpSoon((index as HopscotchIndex).table, attempts),
  pending: (index) => pendingRecords(index as HopscotchIndex),
};

/** Insertions that nobody commits or withdraws any more, until their keys are met. */
function* pendingRecords({ table }: HopscotchIndex): Operation<Address[]> {
  const found: Address[] = [];
  table.directory.begin();
  const walk = new SegmentWalk(table);
  while (walk.position !== undefined) {
    const slots = slotsOf(table, (yield* walk.next()).segment);
    for (let i = 0; i < slots.length; i += 2) {
      const [low, high] = [slots[i], slots[i + 1]];
      if (!isVacant(low, high) && !isLive(low, high)) found.push(recordOf(low, high));
    }
  }
  return found;
}
