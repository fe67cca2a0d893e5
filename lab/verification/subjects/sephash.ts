import type { IndexParameters } from '../../../src/indexes/contract.ts';
import { SEPHASH_TECHNIQUES } from '../../../src/indexes/sephash/geometry.ts';
import { tagFor } from '../../../src/indexes/sephash/segments/entry.ts';
import { SEPHASH, type SepHashIndex } from '../../../src/indexes/sephash/sephash.ts';
import { without } from '../../../src/indexes/substrates/parameters.ts';
import type { Prng } from '../../../src/random/prng.ts';
import type { Address, Operation } from '../../../src/verbs/index.ts';
import { giveUpSoon, oftenOneNode, picker, type Subject } from './subject.ts';

const DEPTH_LIMIT = 8;
const ENTRY_BYTES = 8;

export const SEPHASH_SUBJECT: Subject = {
  kind: SEPHASH,
  parameters: (prng, crowded) => {
    const segmentBytes = 16 * 2 ** prng.below(crowded ? 2 : 3);
    return {
      segmentBytes,
      ratio: 1 + prng.below(2),
      window: prng.below(1 + segmentBytes / ENTRY_BYTES),
      ...withoutSome(prng),
      initialDepth: prng.below(2),
      maxDepth: DEPTH_LIMIT,
      seed: prng.next32(),
    };
  },
  torture(prng) {
    const pick = picker(prng);
    const [segmentBytes, ratio, window] = [pick(64, 128, 256), pick(1, 2, 8), pick(0, 1, 4, 8)];
    return { segmentBytes, ratio, window, initialDepth: 0, maxDepth: 14, ...withoutSome(prng) };
  },
  nodes: oftenOneNode,
  smallest: {
    segmentBytes: 16,
    ratio: 1,
    window: 2,
    initialDepth: 0,
    maxDepth: 3,
    without: 0,
    seed: 7,
  },
  // A merge drops entries of all clients and then retires their records.
  unlinksMany: true,
  // Every key of a suffix may be anywhere in its segment.
  place: () => '',
  fingerprint: ({ h2 }) => tagFor(h2),
  placesOfKey: ({ segmentBytes, ratio }: IndexParameters) =>
    ((ratio + 1) * segmentBytes) / ENTRY_BYTES - 1,
  walksOnce: true,
  ownVersions: true,
  compacts: true,
  // MainSegments and CurSegments: no record of a program has such a size.
  readsAhead: (units) => units === 5 || isMain(units),
  // A MainSegment's block that is copied home while another client's merge retires it.
  overwrites: isMain,
  hurry(index) {
    (index as SepHashIndex).table.patience = { polls: 1, microseconds: 1 };
  },
  hasten: (index, attempts) => giveUpSoon((index as SepHashIndex).table, attempts),
  // An entry counts as soon as it stands.
  pending: () => nothing(),
};

/** Whether a block of this size is a MainSegment's: no record of a program has such a size. */
function isMain(units: number): boolean {
  return units >= 9 && units % 2 === 1;
}

function* nothing(): Operation<Address[]> {
  yield* [];
  return [];
}

/** Every technique is on in most runs and off in some. */
function withoutSome(prng: Prng) {
  const some = ['append', 'signs', 'depthBits', 'zeroWait', 'filter'] as const;
  const left = some.filter(() => prng.below(4) === 0);
  const cache = (['cache', undefined, 'fpTable'] as const)[prng.below(3)];
  return without(SEPHASH_TECHNIQUES, ...left, ...(cache ? [cache] : []));
}
