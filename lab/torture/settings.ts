import { SEPHASH_TECHNIQUES, type SepHashTechnique } from '../../src/indexes/sephash/geometry.ts';
import { SHARD_TECHNIQUES } from '../../src/indexes/shard/parameters.ts';
import { without } from '../../src/indexes/substrates/parameters.ts';
import type {
  ChimeParameters,
  HopscotchParameters,
  HStoreParameters,
  IndexChoice,
  IndexName,
  ParametersOf,
  ShardParameters,
} from '../../src/store/api.ts';
import { Prng } from '../workloads/index.ts';
import type { OracleShape } from './oracle-shape.ts';
import { KINDS, type Mix, OPERATIONS } from './session/operations.ts';

/** Doubles of a store that break their word; a run with one of them must fail. */
export type Canary = '' | 'lie' | 'lose-one';

/** What all workers of a round must agree on. Structured-cloneable and JSON. */
export interface RoundSettings {
  seed: number;
  url: string;
  oracle: string;
  shape: OracleShape;
  index: IndexChoice;
  /** Techniques that the index is made without, of one that can do without any. */
  without: number | undefined;
  poolBytes: number;
  regionBytes: number;
  /** Operations of each row, by all its incarnations together. */
  operations: number;
  /** Upper bound of the operations between two turns of a worker's event loop. */
  burst: number;
  mix: Mix;
  /**
   * One of so many doorbells kills its own process between two verbs, and one of an eighth as many
   * of those that move slots; 0 for never.
   */
  suicideEvery: number;
  /** Each worker has a pid namespace of its own, as in a container. */
  alone: boolean;
  canary: Canary;
}

export interface RoundWishes {
  seed: number;
  url: string;
  oracle: string;
  /** Default: race. */
  index?: IndexName;
  processes: number;
  operations: number;
  keys?: number;
  suicideEvery?: number;
  alone?: boolean;
  canary?: Canary;
}

const MIB = 2 ** 20;

/**
 * Draws a round from its seed: no two seeds stress the same things (TigerBeetle's swarm options).
 */
export function drawRound(wishes: RoundWishes): RoundSettings {
  const random = Prng.fromSeed(wishes.seed);
  const pick = <T>(...choices: T[]) => choices[random.below(choices.length)];
  const race = {
    associativity: pick(1, 2, 3, 4, 7, 7, 8),
    groups: pick(2, 2, 3, 4, 8),
    initialDepth: 0,
    maxDepth: 14,
  };
  const shape = {
    rows: wishes.processes,
    keys: wishes.keys ?? pick(400, 1000, 2500),
    counters: 6,
    tokens: pick(2, 8, 32),
  };
  const mix = Object.fromEntries(
    KINDS.map((kind) => [kind, Math.ceil(OPERATIONS[kind][0] * pick(0.25, 1, 1, 3))]),
  ) as Mix;
  const sephash = {
    segmentBytes: pick(64, 128, 256),
    ratio: pick(1, 2, 8),
    window: pick(0, 1, 4, 8),
    initialDepth: 0,
    maxDepth: 14,
  };
  const sephashWithout = leaveSome(random);
  const kind = wishes.index ?? 'race';
  const forShard = random.fork(1);
  const shapes: ParametersOf = {
    race,
    sephash,
    shard: drawShard(forShard),
    chime: drawChime(random.fork(2)),
    hstore: drawHStore(random.fork(3)),
    hopscotch: drawHopscotch(random.fork(4)),
  };
  const ordered = forShard.below(4) === 3 ? (['ordered'] as const) : [];
  const left: { [K in IndexName]?: { without: number } } = {
    sephash: sephashWithout,
    shard: without(SHARD_TECHNIQUES, ...ordered),
  };
  return {
    seed: wishes.seed,
    url: wishes.url,
    oracle: wishes.oracle,
    shape,
    index: { kind, ...shapes[kind] } as IndexChoice,
    without: left[kind]?.without,
    poolBytes: pick(32, 64) * MIB,
    regionBytes: pick(8, 32) * MIB,
    operations: wishes.operations,
    burst: pick(20, 200, 1000),
    mix,
    suicideEvery: wishes.suicideEvery ?? 0,
    alone: wishes.alone ?? false,
    canary: wishes.canary ?? '',
  };
}

/** Every technique is on in most rounds and off in some. */
function leaveSome(random: Prng): { without: number } {
  const cache = (['cache', undefined, 'fpTable'] as const)[random.below(3)];
  const others = ['append', 'signs', 'filter', 'depthBits', 'zeroWait'] as const;
  const left: SepHashTechnique[] = others.filter(() => random.below(3) === 0);
  return without(SEPHASH_TECHNIQUES, ...left, ...(cache ? [cache] : []));
}

/**
 * From a generator of its own, so that a seed draws the same rounds for other indexes. Every table
 * begins with a few entries, so that a round of some hundred keys resizes it over and over.
 */
function drawShard(random: Prng): ShardParameters {
  const pick = <T>(...choices: T[]) => choices[random.below(choices.length)];
  return {
    buckets: pick(1, 1, 2, 4),
    level1: pick(2, 4, 8, 16),
    level2: pick(1, 2, 4),
    threshold: pick(40, 80, 80, 100),
    alpha: pick(10, 1000, 10_000),
  };
}

function drawChime(random: Prng): ChimeParameters {
  const pick = <T>(...choices: T[]) => choices[random.below(choices.length)];
  const span = pick(4, 8, 16, 64);
  return {
    span,
    neighbourhood: Math.min(span, pick(2, 4, 8)),
    fanout: pick(2, 3, 8, 64),
    inlineBytes: pick(0, 24, 48),
  };
}

function drawHopscotch(random: Prng): HopscotchParameters {
  const pick = <T>(...choices: T[]) => choices[random.below(choices.length)];
  const span = pick(4, 8, 16, 64);
  const neighbourhood = Math.min(span, pick(2, 4, 8));
  return { span, neighbourhood, inlineBytes: pick(0, 24, 48), initialDepth: 0, maxDepth: 16 };
}

/** Tables so small that chains form, logs so short that they come round all the time. */
function drawHStore(random: Prng): HStoreParameters {
  const pick = <T>(...choices: T[]) => choices[random.below(choices.length)];
  return {
    pairs: pick(1, 1, 2),
    buckets: pick(4, 32, 256),
    log: pick(4, 32, 4096),
    partitions: pick(1, 4),
  };
}
