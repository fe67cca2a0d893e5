import type { IndexChoice, IndexName } from '../../src/store/api.ts';
import { subjectNamed } from '../verification/subjects/index.ts';
import { picker } from '../verification/subjects/subject.ts';
import { Prng } from '../workloads/index.ts';
import type { OracleShape } from './oracle-shape.ts';
import { KINDS, type Mix, OPERATIONS } from './session/operations.ts';

/** A faulty store to test the oracle with; such a run must fail. */
export type Canary = '' | 'lie' | 'lose-one';

/** What all workers of a round must agree on; it goes through JSON and structured cloning. */
export interface RoundSettings {
  seed: number;
  url: string;
  oracle: string;
  shape: OracleShape;
  index: IndexChoice;
  /** Techniques that the index runs without, if it can switch any off. */
  without: number | undefined;
  poolBytes: number;
  regionBytes: number;
  /** Operations of each row, counting all its incarnations. */
  operations: number;
  /** Upper bound of the operations between two turns of a worker's event loop. */
  burst: number;
  mix: Mix;
  /**
   * A worker kills itself between two verbs of one in this many doorbells, eight times as often in
   * doorbells that move slots; 0 for never.
   */
  suicideEvery: number;
  /** Each worker has its own pid namespace, as in a container. */
  alone: boolean;
  canary: Canary;
}

interface RoundWishes {
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
 * Draws a round from its seed. Different seeds stress different things (like TigerBeetle's swarm
 * testing).
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
