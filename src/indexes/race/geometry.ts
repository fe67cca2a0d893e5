import { type Address, UNIT_BYTES } from '../../verbs/index.ts';
import { inRange } from '../substrates/parameters.ts';

/** Parameters of a RACE table; kept in the catalog. */
export interface RaceShape {
  associativity: number;
  groups: number;
  initialDepth: number;
  maxDepth: number;
  /** Seed of the key hash, so that no client can prepare keys that collide. */
  seed: number;
}

/** Words of a subtable's header: its parent's address; its suffix and birth depth. */
export const PARENT = 0;
export const IDENTITY = 8;

const ASSOCIATIVITY_MAX = 64;
const GROUPS_MAX = 65_536;
/** Suffix bits: the slot's depth stamp and the fingerprint's place in the hash allow no more. */
export const DEPTH_MAX = 24;

/**
 * The RAC subtable (RACE section 3.2): groups of three contiguous buckets, main, overflow, main. A
 * main bucket together with the group's overflow bucket is a combined bucket, contiguous, one READ.
 *
 *   subtable: header (one line): 0 parent's address, 8 suffix 32 | birth depth 8; then the buckets
 *   bucket:   header 8 bytes, then `associativity` slots of 8 bytes; 64 bytes with 7
 */
export class RaceGeometry {
  readonly shape: RaceShape;
  readonly bucketBytes: number;
  readonly combinedBytes: number;
  readonly buckets: number;
  readonly subtableBytes: number;
  readonly subtableUnits: number;
  readonly slots: number;
  readonly #groupScale: number;
  readonly #otherScale: number;

  constructor(shape: RaceShape) {
    const { associativity, groups } = shape;
    this.shape = shape;
    this.bucketBytes = 8 * (associativity + 1);
    this.combinedBytes = 2 * this.bucketBytes;
    this.buckets = 3 * groups;
    this.subtableBytes = UNIT_BYTES + this.buckets * this.bucketBytes;
    this.subtableUnits = Math.ceil(this.subtableBytes / UNIT_BYTES);
    this.slots = this.buckets * associativity;
    this.#groupScale = groups / 2 ** 32;
    this.#otherScale = (groups - 1) / 2 ** 32;
  }

  bucketAddress(subtable: Address, bucket: number): Address {
    return subtable + UNIT_BYTES + bucket * this.bucketBytes;
  }

  /** First bucket of the first combined bucket of a key: hash word 2 gives group and side. */
  firstChoice(h2: number): number {
    const group = ((h2 >>> 0) * this.#groupScale) | 0;
    return 3 * group + (h2 & 1);
  }

  /** First bucket of the second combined bucket: any other group (section 3.2, D2). */
  secondChoice(h2: number, h3: number): number {
    const group = ((h2 >>> 0) * this.#groupScale) | 0;
    const step = 1 + (((h3 >>> 0) * this.#otherScale) | 0);
    const other = group + step;
    const { groups } = this.shape;
    return 3 * (other >= groups ? other - groups : other) + (h3 & 1);
  }
}

/** Fingerprints are never 0, so that neither an empty slot nor a bucket header matches one. */
export function fingerprintOf(h1: number): number {
  return h1 >>> 24 || 1;
}

export function raceShape(
  wishes: { associativity?: number; groups?: number; initialDepth?: number; maxDepth?: number },
  poolBytes: number,
  seed: number,
): RaceShape {
  const associativity = inRange('associativity', wishes.associativity ?? 7, 1, ASSOCIATIVITY_MAX);
  const groups = inRange('groups', wishes.groups ?? 64, 2, GROUPS_MAX);
  // One level more than a pool filled with half-empty subtables could use.
  const subtables = poolBytes / (24 * groups * (associativity + 1));
  const reachable = Math.min(DEPTH_MAX, Math.max(4, Math.ceil(Math.log2(subtables)) + 1));
  const maxDepth = inRange('maxDepth', wishes.maxDepth ?? reachable, 0, DEPTH_MAX);
  const initialDepth = inRange(
    'initialDepth',
    wishes.initialDepth ?? Math.min(1, maxDepth),
    0,
    maxDepth,
  );
  return { associativity, groups, initialDepth, maxDepth, seed };
}
