import { StepwellError } from '../../errors.ts';
import { inRange, powerInRange } from '../substrates/parameters.ts';
import { POOL_BYTES_MAX, VERSION_MAX } from './table/slot.ts';

/** Techniques, most of them the paper's, in the order of the bits of the parameter `without`. */
export const SHARD_TECHNIQUES = [
  'ordered', // an insertion takes the first fresh entry by one CAS; else it claims, then commits
  'lazy', // the first client to meet a bucket moves it; else the resizer moves all of them
  'combining', // new and old bucket in one doorbell; else one after the other
  'adaptive', // the interval between synchronisations adapts; else it is fixed
  'shares', // … to the client's share of the insertions, too; else by the paper's formula alone
  'clearing', // overflow bits and empty chains are removed once after each resize
] as const;
export type ShardTechnique = (typeof SHARD_TECHNIQUES)[number];

/**
 * Parameters of a SHARD index, in the order in which the catalog keeps them:
 *
 *   buckets     of each level of a partition before the first resize, a power of two
 *   level1      entries of a bucket of level 1
 *   level2      … and of level 2
 *   threshold   load, in per cent of the entries of levels 1 and 2, at which a table is resized
 *   alpha       of the adaptive frequency synchronisation, in ten-thousandths
 *   resizes     how often a table can be resized
 *   without     bit set of the techniques that this index leaves out
 *   seed        of the key hash, so that no client can prepare keys that collide
 *   partitions  tables that share the keys, each on one memory node; see partitions.ts
 */
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

export type ShardShape = Readonly<Record<(typeof SHARD_PARAMETER_NAMES)[number], number>>;

/** Bits of a hash word that may choose a bucket; the four bits of a segment id follow them. */
export const BUCKET_BITS_MAX = 28;
const PARTITIONS_MAX = 1024;
/** With several memory nodes: enough to balance loads, also after nodes are added. */
const PARTITIONS_OVER_NODES = 64;
const BUCKETS = 64;
/** Buckets of each partition when there are several. */
const BUCKETS_OF_PARTITION = 8;

export function shardShape(
  given: Readonly<Record<string, number | undefined>>,
  poolBytes: number,
  seed: number,
  nodes = 1,
): ShardShape {
  if (poolBytes > POOL_BYTES_MAX) {
    const limit = `entries of SHARD reach ${POOL_BYTES_MAX} bytes`;
    throw new StepwellError('SW_INVALID_ARGUMENT', `the pool is too large: ${limit}`);
  }
  const wanted = given.partitions ?? (nodes > 1 ? PARTITIONS_OVER_NODES : 1);
  const partitions = inRange('partitions', wanted, 1, PARTITIONS_MAX);
  const usual = partitions > 1 ? BUCKETS_OF_PARTITION : BUCKETS;
  const buckets = powerInRange('buckets', given.buckets ?? usual, 1, 2 ** 20);
  const most = Math.min(VERSION_MAX, BUCKET_BITS_MAX - Math.log2(buckets));
  return {
    buckets,
    level1: inRange('level1', given.level1 ?? 64, 1, 128),
    level2: inRange('level2', given.level2 ?? 8, 1, 32),
    threshold: inRange('threshold', given.threshold ?? 80, 1, 100),
    alpha: inRange('alpha', given.alpha ?? 1000, 1, 1_000_000),
    resizes: inRange('resizes', given.resizes ?? most, 0, most),
    without: inRange('without', given.without ?? 0, 0, 2 ** SHARD_TECHNIQUES.length - 1),
    partitions,
    seed,
  };
}
