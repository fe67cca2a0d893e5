import type { IndexParameters } from '../../../src/indexes/contract.ts';
import { RaceGeometry } from '../../../src/indexes/race/geometry.ts';
import { RACE, type RaceIndex, shapeFrom } from '../../../src/indexes/race/race.ts';
import { claimsOf, giveUpSoon, oftenOneNode, picker, type Subject } from './subject.ts';

const DEPTH_LIMIT = 8;
const BUCKETS_OF_KEY = 4;

export const RACE_SUBJECT: Subject = {
  kind: RACE,
  parameters: (prng, crowded) => ({
    associativity: crowded && prng.below(3) > 0 ? 1 : 1 + prng.below(2),
    groups: 2 + prng.below(2),
    initialDepth: prng.below(2),
    maxDepth: DEPTH_LIMIT,
    seed: prng.next32(),
  }),
  torture(prng) {
    const pick = picker(prng);
    const [associativity, groups] = [pick(1, 2, 3, 4, 7, 7, 8), pick(2, 2, 3, 4, 8)];
    return { associativity, groups, initialDepth: 0, maxDepth: 14 };
  },
  nodes: oftenOneNode,
  smallest: { associativity: 1, groups: 2, initialDepth: 0, maxDepth: 3, seed: 7 },
  place({ h2, h3 }, parameters) {
    const geometry = new RaceGeometry(shapeFrom(parameters));
    return `${geometry.firstChoice(h2)}/${geometry.secondChoice(h2, h3)}`;
  },
  fingerprint: ({ h1 }) => h1 >>> 24,
  placesOfKey: ({ associativity }: IndexParameters) => BUCKETS_OF_KEY * associativity,
  walksOnce: true,
  hurry(index) {
    (index as RaceIndex).table.patience = { polls: 1, microseconds: 1 };
  },
  hasten: (index, attempts) => giveUpSoon((index as RaceIndex).table, attempts),
  pending: claimsOf,
};
