import type { IndexChoice, IndexName } from '../../src/store/api.ts';
import { subjectNamed } from '../verification/subjects/index.ts';
import { picker } from '../verification/subjects/subject.ts';
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
  const pick = picker(random);
  const shape = {
    rows: wishes.processes,
    keys: wishes.keys ?? pick(400, 1000, 2500),
    counters: 6,
    tokens: pick(2, 8, 32),
  };
  const mix = Object.fromEntries(
    KINDS.map((kind) => [kind, Math.ceil(OPERATIONS[kind][0] * pick(0.25, 1, 1, 3))]),
  ) as Mix;
  const kind = wishes.index ?? 'race';
  const { without, ...parameters } = subjectNamed(kind).torture?.(random.fork(1)) ?? {};
  return {
    seed: wishes.seed,
    url: wishes.url,
    oracle: wishes.oracle,
    shape,
    index: { kind, ...parameters } as IndexChoice,
    without,
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
