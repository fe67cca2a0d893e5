import { StepwellError } from '../../../errors.ts';
import { finalMix, type KeyHash } from '../../../records/hash.ts';

/** Points of a memory node on the ring. More points make the shares more even. */
const POINTS = 64;
/** How far a node may exceed its even share, in per cent. */
const SLACK = 25;

/**
 * Which memory node holds which part of the keys, by consistent hashing with bounded loads
 * (Mirrokni et al., SODA 2018; SHARD section 3.5). The keys are cut into a fixed number of
 * partitions, each with its own table; a partition goes to the first node on the ring that has
 * room. No node gets more than 125 % of its even share. When a node joins or leaves, about its
 * share of the partitions moves.
 */
export class Placement {
  readonly #nodeOf: readonly number[];

  constructor(nodes: readonly number[], partitions: number) {
    if (nodes.length === 0 || new Set(nodes).size !== nodes.length) {
      throw new StepwellError('SW_INVALID_ARGUMENT', 'a placement needs distinct memory nodes');
    }
    this.#nodeOf = assign(ringOf(nodes), partitions, capacityOf(nodes.length, partitions));
  }

  nodeOf(partition: number): number {
    return this.#nodeOf[partition];
  }
}

/**
 * The partition of a key. Mixes both hash words, so that the keys of one partition still fill its
 * table evenly. Independent of the placement.
 */
export function partitionOf({ h1, h2 }: Pick<KeyHash, 'h1' | 'h2'>, partitions: number): number {
  return (mix(h1, h2) * (partitions / 2 ** 32)) | 0;
}

/** The most partitions that a node holds. */
export function capacityOf(nodes: number, partitions: number): number {
  return Math.ceil((partitions * (100 + SLACK)) / (100 * nodes));
}

interface Point {
  at: number;
  node: number;
}

function ringOf(nodes: readonly number[]): Point[] {
  const points = nodes.flatMap((node) =>
    Array.from({ length: POINTS }, (_, i) => ({ at: mix(node, i + 1), node })),
  );
  return points.sort((a, b) => a.at - b.at || a.node - b.node);
}

function assign(ring: readonly Point[], partitions: number, capacity: number): number[] {
  const load = new Map<number, number>();
  return Array.from({ length: partitions }, (_, partition) => {
    const at = mix(partition, 0);
    let i = ring.findIndex((point) => point.at >= at);
    if (i < 0) i = 0;
    while ((load.get(ring[i].node) ?? 0) >= capacity) i = (i + 1) % ring.length;
    const { node } = ring[i];
    load.set(node, (load.get(node) ?? 0) + 1);
    return node;
  });
}

function mix(a: number, b: number): number {
  return finalMix(finalMix(a + 0x9e3779b9) ^ Math.imul(b, 0x85ebca77)) >>> 0;
}
