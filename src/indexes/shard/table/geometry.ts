import type { KeyHash } from '../../../records/hash.ts';
import { UNIT_BYTES } from '../../../verbs/index.ts';
import { BUCKET_BITS_MAX, type ShardShape } from '../parameters.ts';
import { SEGMENT_ID_BITS } from './slot.ts';

/** Levels by index: 0 is the paper's level 1. */
export const LEVELS = 3;
/** Where a key may be: its bucket of level 1, its two of level 2, its one of level 3. */
export const PLACES = 4;
export const LEVEL_OF_PLACE: readonly number[] = [0, 1, 1, 2];

/** A chain node of level 3 is one line: seven entries and the link to the next node. */
export const NODE_BYTES = UNIT_BYTES;
export const NODE_LINK = NODE_BYTES - 8;
/** A bucket of level 3: one entry and the link to its chain. */
const LEVEL3_BYTES = 16;
export const LEVEL3_LINK = 8;
/** A piece takes no more of a region, so that it finds room beside other allocations. */
const REGION_SHARE_MAX = 1 / 4;

/**
 * Three levels with the same number of buckets, which doubles with every resize. Segment 0 holds
 * the first buckets of all levels. Segment k >= 1 holds those that the k-th resize adds: buckets
 * [2^(k-1), 2^k) times the first number. After v resizes, at version v, a hash's bucket is its
 * lowest log2(buckets) + v bits. Version v + 1 splits bucket b into b and b + buckets * 2^v.
 *
 * Segments stand in the pool in pieces. A segment that fits in a quarter of a region is one piece.
 * A larger one is cut into pieces of as many buckets as the largest such segment. Each piece has
 * its own three levels, so no bucket spans two of them.
 */
export class ShardGeometry {
  readonly shape: ShardShape;
  readonly bucketBytes: readonly number[];
  /** Bytes of the buckets with the same number in all levels. The link to the chain is last. */
  readonly rowBytes: number;
  /** Entries of a bucket, by level. */
  readonly entries: readonly number[];
  readonly #logBuckets: number;
  /** Buckets of each piece of a cut segment (log2), and how many segments are one piece. */
  readonly #logPiece: number;
  readonly #whole: number;

  constructor(shape: ShardShape, regionBytes = Number.POSITIVE_INFINITY) {
    this.shape = shape;
    this.entries = [shape.level1, shape.level2, 1];
    this.bucketBytes = [8 * shape.level1, 8 * shape.level2, LEVEL3_BYTES];
    this.rowBytes = this.bucketBytes.reduce((sum, each) => sum + each);
    this.#logBuckets = Math.log2(shape.buckets);
    let logPiece = this.#logBuckets;
    const isRoomFor = (log: number) =>
      UNIT_BYTES * this.#unitsOf(2 ** log) <= regionBytes * REGION_SHARE_MAX;
    while (logPiece < BUCKET_BITS_MAX && isRoomFor(logPiece + 1)) logPiece++;
    this.#logPiece = logPiece;
    this.#whole = logPiece - this.#logBuckets + 2;
  }

  bucketsAt(version: number): number {
    return this.shape.buckets << version;
  }

  /** Entries of levels 1 and 2; load is a share of these. */
  capacityAt(version: number): number {
    return this.bucketsAt(version) * (this.shape.level1 + this.shape.level2);
  }

  bucketOf(hash: number, version: number): number {
    return hash & (this.bucketsAt(version) - 1);
  }

  /** The version at which the bucket came into being; also the number of its segment. */
  bornAt(bucket: number): number {
    return bucket < this.shape.buckets ? 0 : 32 - Math.clz32(bucket >>> this.#logBuckets);
  }

  /** The bucket from which a bucket was split. */
  parentOf(bucket: number): number {
    return bucket - this.bucketsAt(this.bornAt(bucket) - 1);
  }

  /** The first bucket of a segment. */
  firstBucket(segment: number): number {
    return segment === 0 ? 0 : this.bucketsAt(segment - 1);
  }

  /** The piece that a bucket is in. Pieces are counted through all segments. */
  pieceOf(bucket: number): number {
    const pieces = bucket >>> this.#logPiece;
    return pieces < 2 ? this.bornAt(bucket) : this.#whole + pieces - 2;
  }

  /** The first piece of a segment. `firstPiece(segment + 1)` follows its last one. */
  firstPiece(segment: number): number {
    if (segment <= this.#whole) return segment;
    return this.pieceOf(this.firstBucket(segment));
  }

  piecesOf(segment: number): number {
    return this.firstPiece(segment + 1) - this.firstPiece(segment);
  }

  /** The first bucket of a piece, and how many there are. */
  bucketsOfPiece(piece: number): { first: number; count: number } {
    if (piece < this.#whole) {
      const first = this.firstBucket(piece);
      // Each segment but the first has as many buckets as all before it.
      return { first, count: piece === 0 ? this.shape.buckets : first };
    }
    const count = 2 ** this.#logPiece;
    return { first: (piece - this.#whole + 2) * count, count };
  }

  /** Where the buckets of a level begin in a piece. */
  levelOffset(piece: number, level: number): number {
    return this.#offsetIn(this.bucketsOfPiece(piece).count, level);
  }

  pieceUnits(piece: number): number {
    return this.#unitsOf(this.bucketsOfPiece(piece).count);
  }

  /** Lines of all pieces of a segment. */
  segmentUnits(segment: number): number {
    return this.piecesOf(segment) * this.pieceUnits(this.firstPiece(segment));
  }

  #unitsOf(buckets: number): number {
    return this.#offsetIn(buckets, LEVELS) / UNIT_BYTES;
  }

  #offsetIn(buckets: number, level: number): number {
    let offset = 0;
    for (let l = 0; l < level; l++) offset += toUnits(buckets * this.bucketBytes[l]) * UNIT_BYTES;
    return offset;
  }

  /** Size of the block of a relocated bucket. */
  relocatedUnits(level: number): number {
    return toUnits(this.bucketBytes[level]);
  }

  /** The hash bits that decide the four resizes of the group to which `version` belongs. */
  segmentId(hash: number, version: number): number {
    const group = version - (version % SEGMENT_ID_BITS);
    return (hash >>> (this.#logBuckets + group)) & 0xf;
  }

  /** Where a key's rotated scan of its level 1 bucket begins. */
  startSlot(h3: number): number {
    return ((h3 >>> 0) * (this.shape.level1 / 2 ** 32)) | 0;
  }
}

/** The hash word that chooses the bucket of a place. */
export function hashOfPlace(hash: KeyHash, place: number): number {
  if (place === 0) return hash.h1;
  if (place === 1) return hash.h2;
  return place === 2 ? hash.h3 : hash.h4;
}

function toUnits(bytes: number): number {
  return Math.ceil(bytes / UNIT_BYTES);
}
