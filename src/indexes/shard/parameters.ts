import { StepwellError } from '../../errors.ts';
import { inRange, powerInRange } from '../substrates/parameters.ts';
import { POOL_BYTES_MAX, VERSION_MAX } from './table/slot.ts';

/** Techniques, most of them the paper's, in the order of the bits of `ShardShape.without`. */
export const SHARD_TECHNIQUES = [
  'ordered', // an insertion takes the first fresh entry by one CAS; else it claims, then commits
  'lazy', // the first client to meet a bucket moves it; else the resizer moves all of them
  'combining', // new and old bucket in one doorbell; else one after the other
  'adaptive', // the interval between synchronisations adapts; else it is fixed
  'shares', // … to the client's share of the insertions, too; else by the paper's formula alone
  'clearing', // overflow bits and empty chains are removed once after each resize
] as const;
export type ShardTechnique = (typeof SHARD_TECHNIQUES)[number];

/** Parameters of a SHARD table; kept in the catalog. */
export interface ShardShape {
  /** Buckets of each level of a partition before the first resize, a power of two. */
  buckets: number;
  /** Entries of a bucket of level 1 and of level 2. */
  level1: number;
  level2: number;
  /** Load, in per cent of the entries of levels 1 and 2, at which the table is resized. */
  threshold: number;
  /** Alpha of the adaptive frequency synchronisation, in ten-thousandths. */
  alpha: number;
  /** How often the table can be resized. */
  resizes: number;
  /** Bit set of the techniques that this index leaves out. */
  without: number;
  /** How many tables share the keys, each on one memory node; see partitions.ts. */
  partitions: number;
  /** Seed of the key hash, so that no client can prepare keys that collide. */
  seed: number;
}

export const SHARD_PARAMETER_NAMES = [
  'buckets',
  'level1',
  'level2',
  'threshold',
  'alpha',
  'resizes',
  'without',
  'seed',
  'partitions',
] as const;

/** Bits of a hash word that may choose a bucket; the four bits of a segment id follow them. */
export const BUCKET_BITS_MAX = 28;
const PARTITIONS_MAX = 1024;
/** With several memory nodes: enough to balance loads, also after nodes are added. */
const PARTITIONS_OVER_NODES = 64;
const BUCKETS = 64;
/** Buckets of each partition when there are several. */
const BUCKETS_OF_PARTITION = 8;

export function shardShape(
  wishes: Readonly<Record<string, number | undefined>>,
  poolBytes: number,
  seed: number,
  nodes = 1,
): ShardShape {
  if (poolBytes > POOL_BYTES_MAX) {
    const limit = `entries of SHARD reach ${POOL_BYTES_MAX} bytes`;
    throw new StepwellError('SW_INVALID_ARGUMENT', `the pool is too large: ${limit}`);
  }
  const wanted = wishes.partitions ?? (nodes > 1 ? PARTITIONS_OVER_NODES : 1);
  const partitions = inRange('partitions', wanted, 1, PARTITIONS_MAX);
  const usual = partitions > 1 ? BUCKETS_OF_PARTITION : BUCKETS;
  const buckets = powerInRange('buckets', wishes.buckets ?? usual, 1, 2 ** 20);
  const most = Math.min(VERSION_MAX, BUCKET_BITS_MAX - Math.log2(buckets));
  return {
    buckets,
    level1: inRange('level1', wishes.level1 ?? 64, 1, 128),
    level2: inRange('level2', wishes.level2 ?? 8, 1, 32),
    threshold: inRange('threshold', wishes.threshold ?? 80, 1, 100),
    alpha: inRange('alpha', wishes.alpha ?? 1000, 1, 1_000_000),
    resizes: inRange('resizes', wishes.resizes ?? most, 0, most),
    without: inRange('without', wishes.without ?? 0, 0, 2 ** SHARD_TECHNIQUES.length - 1),
    partitions,
    seed,
  };
}
