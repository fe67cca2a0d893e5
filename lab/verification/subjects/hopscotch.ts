import { StepwellError } from '../../../src/errors.ts';
import type { IndexParameters } from '../../../src/indexes/contract.ts';
import { HopscotchGeometry } from '../../../src/indexes/hopscotch/geometry.ts';
import {
  HOPSCOTCH,
  type HopscotchIndex,
  shapeFrom,
} from '../../../src/indexes/hopscotch/hopscotch.ts';
import type { LeafRetry } from '../../../src/indexes/substrates/leaf/leaf-client.ts';
import type { LeafRequest } from '../../../src/indexes/substrates/leaf/leaf-request.ts';
import { everyOtherMeetsMisses, meetMisses } from './leaf-misses.ts';
import { oftenOneNode, picker, type Subject } from './subject.ts';

const DEPTH_LIMIT = 8;
/** Some values of a program fit an entry of the smallest size, others do not. */
const INLINE_BYTES = [0, 16, 24, 48];

export const HOPSCOTCH_SUBJECT: Subject = {
  kind: HOPSCOTCH,
  parameters(prng, crowded) {
    const span = 2 + prng.below(crowded ? 3 : 6);
    const neighbourhood = 2 + prng.below(Math.min(span, 4) - 1);
    const initialDepth = prng.below(2);
    const seed = prng.next32();
    const inlineBytes = INLINE_BYTES[seed % INLINE_BYTES.length];
    const accessWords = (seed >>> 8) & 1;
    const maxDepth = DEPTH_LIMIT;
    return { span, neighbourhood, inlineBytes, initialDepth, maxDepth, seed, accessWords };
  },
  torture(prng) {
    const pick = picker(prng);
    const span = pick(4, 8, 16, 64);
    const neighbourhood = Math.min(span, pick(2, 4, 8));
    return { span, neighbourhood, inlineBytes: pick(0, 24, 48), initialDepth: 0, maxDepth: 16 };
  },
  nodes: oftenOneNode,
  smallest: {
    span: 2,
    neighbourhood: 2,
    inlineBytes: 16,
    initialDepth: 0,
    maxDepth: 3,
    seed: 7,
    accessWords: 0,
  },
  place: ({ h2 }, parameters) => String(new HopscotchGeometry(shapeFrom(parameters)).homeOf(h2)),
  fingerprint: ({ h1 }) => h1 >>> 24,
  placesOfKey: ({ neighbourhood }: IndexParameters) => neighbourhood,
  walksOnce: true,
  answersTheDead: true,
  vary(index, prng) {
    everyOtherMeetsMisses((index as HopscotchIndex).table);
    if (prng.below(2) === 0) index.configure?.({ hotspots: 8 });
  },
  // A split keeps its lock then.
  *stock(index) {
    const { allocator, catalog, geometry } = (index as HopscotchIndex).table;
    yield* allocator.refill(allocator.sizeClass(catalog, geometry.leafUnits));
  },
  hurry(index) {
    meetMisses((index as HopscotchIndex).table);
    (index as HopscotchIndex).table.patience = { spins: 0, polls: 1, microseconds: 1 };
  },
  hasten(index, attempts) {
    const { table } = index as HopscotchIndex;
    const { count } = table;
    table.count = (reason: LeafRetry, attempt: number, request: LeafRequest) => {
      count.call(table, reason, attempt, request);
      // Sweeps have these retries, too, and must not give up half-way.
      if (attempt < attempts || reason === 'otherLeaf' || reason === 'changing') return;
      throw new StepwellError('SW_CONTENTION', 'other clients always win in this run');
    };
  },
  // biome-ignore lint/correctness/useYield: a dead client leaves an intent, which repairs finish
  *pending() {
    return [];
  },
};
