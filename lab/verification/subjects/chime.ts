import { StepwellError } from '../../../src/errors.ts';
import { CHIME, type ChimeIndex, shapeFrom } from '../../../src/indexes/chime/chime.ts';
import { ChimeGeometry, unitsBeside } from '../../../src/indexes/chime/geometry.ts';
import type { ChimeRequest } from '../../../src/indexes/chime/request.ts';
import type { LeafRetry } from '../../../src/indexes/substrates/leaf/leaf-client.ts';
import { everyOtherMeetsMisses, meetMisses } from './leaf-misses.ts';
import { oftenOneNode, picker, type Subject } from './subject.ts';

const CLIENT = { cacheKiB: 64 };
/** Some values of a program fit an entry of the smallest size, others do not. */
const INLINE_BYTES = [0, 16, 24, 48];

export const CHIME_SUBJECT: Subject = {
  kind: CHIME,
  parameters(prng, crowded) {
    const span = 2 + prng.below(crowded ? 3 : 6);
    const neighbourhood = 2 + prng.below(Math.min(span, 4) - 1);
    const fanout = 2 + prng.below(3);
    const seed = prng.next32();
    const inlineBytes = INLINE_BYTES[seed % INLINE_BYTES.length];
    const accessWords = (seed >>> 8) & 1;
    return { span, neighbourhood, inlineBytes, fanout, ...CLIENT, seed, accessWords };
  },
  torture(prng) {
    const pick = picker(prng);
    const span = pick(4, 8, 16, 64);
    const neighbourhood = Math.min(span, pick(2, 4, 8));
    return { span, neighbourhood, fanout: pick(2, 3, 8, 64), inlineBytes: pick(0, 24, 48) };
  },
  nodes: oftenOneNode,
  smallest: {
    span: 2,
    neighbourhood: 2,
    inlineBytes: 16,
    fanout: 2,
    ...CLIENT,
    seed: 7,
    accessWords: 0,
  },
  place: ({ h2 }, parameters) => String(new ChimeGeometry(shapeFrom(parameters)).homeOf(h2)),
  fingerprint: ({ h1 }) => h1 >>> 24,
  placesOfKey: ({ neighbourhood }) => neighbourhood,
  walksOnce: true,
  answersTheDead: true,
  // Leaves and nodes have sizes that records do not have: those are never read when they are free.
  readsAhead: (units) => unitsBeside(units) === units,
  locksAhead: (units) => unitsBeside(units) === units,
  // Clients of one tree need not agree.
  vary(index, prng) {
    everyOtherMeetsMisses((index as ChimeIndex).tree);
    const { cache } = (index as ChimeIndex).tree;
    // The trees are too small for an arena that is copied now and then.
    if (prng.below(2) === 0) cache.arenaWordsMin = 0;
  },
  // A split keeps its lock then.
  *stock(index) {
    const { allocator, catalog, geometry } = (index as ChimeIndex).tree;
    yield* allocator.refill(allocator.sizeClass(catalog, geometry.leafUnits));
  },
  hurry(index) {
    const { tree } = index as ChimeIndex;
    meetMisses(tree);
    tree.patience = { spins: 0, polls: 1, microseconds: 1 };
    // Their keys ascend: a split at the end would move none of them.
    tree.splitsAtEnd = false;
  },
  hasten(index, attempts) {
    const { tree } = index as ChimeIndex;
    const { count } = tree;
    tree.count = (reason: LeafRetry, attempt: number, request: ChimeRequest) => {
      count.call(tree, reason, attempt, request);
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
