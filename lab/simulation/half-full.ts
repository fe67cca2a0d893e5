import type { RaceShape } from '../../src/indexes/race/geometry.ts';
import { SimulatedCluster } from './cluster.ts';
import type { Settings } from './experiment.ts';
import { type IndexKind, raceKind } from './index-kind.ts';

/** RACE 5.2.1: one line per bucket. The other parameters make a table of 172,032 slots. */
const SHAPE: RaceShape = { associativity: 7, groups: 64, initialDepth: 7, maxDepth: 12, seed: 1 };
const SLOTS = 3 * SHAPE.associativity * SHAPE.groups * 2 ** SHAPE.initialDepth;

/** Load factor 0.5, as in RACE 5.2.7 and 5.2.9. */
export const HALF_FULL_RECORDS = SLOTS / 2;

export const RACE_TABLE = raceKind(SHAPE);

interface HalfFullOptions {
  kind?: IndexKind;
  clients?: number;
  computeNodes?: number;
  poolBytes?: number;
}

/** A cluster of one memory node with a table that is half full. */
export function halfFullCluster(
  { model, seed }: Settings,
  { kind = RACE_TABLE, clients = 1, computeNodes, poolBytes }: HalfFullOptions = {},
): SimulatedCluster {
  const cluster = new SimulatedCluster({ model, seed, kind, clients, computeNodes, poolBytes });
  cluster.load(HALF_FULL_RECORDS);
  return cluster;
}
