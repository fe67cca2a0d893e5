import { Batch, NULL_ADDRESS, type Operation, Scratch } from '../../verbs/index.ts';
import { bringTo } from './resizing/catch-up.ts';
import { LEVEL3_LINK, LEVELS, NODE_BYTES, NODE_LINK } from './table/geometry.ts';
import type { Segments } from './table/segments.ts';
import { FROZEN, isInUse, pointerOf, stampOf } from './table/slot.ts';
import type { ShardTable } from './table/table.ts';

const READ_BYTES = 32 * 1024;
const SETTLE_ROUNDS_MAX = 1000;

/** The level of chain nodes, for visitors. */
export const CHAINS = LEVELS;

export interface VisitedBucket {
  words: Scratch;
  /** Offset of the bucket's first entry in the words, and how many entries it has. */
  at: number;
  entries: number;
  /** CHAINS for a chain node; `bucket` is then the bucket of level 3 that led to it. */
  level: number;
  bucket: number;
  address: number;
  /** The version of the bucket. */
  version: number;
}

/**
 * Visits every bucket that has been initialised and every chain node once, after finishing moves
 * that a dead client may have left half done. Buckets that no client has visited since a resize are
 * left as they are. Segments are visited in order, so that an entry that is moved meanwhile is met,
 * unless a resize adds a segment.
 */
export function* eachBucket(
  table: ShardTable,
  visit: (bucket: VisitedBucket) => void,
  firstLevel = 0,
): Operation<void> {
  const { geometry } = table;
  yield* table.load();
  yield* fetchAll(table);
  const { segments } = table;
  const nodes = new Set<number>();
  const { version } = segments;
  for (let level = firstLevel; level < LEVELS; level++) {
    const bytes = geometry.bucketBytes[level];
    const perRead = Math.max(1, Math.floor(READ_BYTES / bytes));
    for (let piece = 0; piece < geometry.firstPiece(version + 1); piece++) {
      const { first, count: buckets } = geometry.bucketsOfPiece(piece);
      const end = first + buckets;
      for (let bucket = first; bucket < end; bucket += perRead) {
        const count = Math.min(perRead, end - bucket);
        yield* visitSome(table, segments, level, bucket, count, nodes, visit);
      }
    }
  }
}

/** Fetches the buckets of a table under migration that no client has fetched yet. */
function* fetchAll(table: ShardTable): Operation<void> {
  const { geometry, segments } = table;
  if (segments.former === undefined) return;
  const all = geometry.bucketsAt(segments.fetchedAt);
  for (let level = 0; level < LEVELS; level++) {
    for (let bucket = 0; bucket < all; bucket++) {
      yield* bringTo(table, level, bucket, segments.fetchedAt, undefined, segments);
    }
  }
}

function* visitSome(
  table: ShardTable,
  segments: Segments,
  level: number,
  first: number,
  count: number,
  nodes: Set<number>,
  visit: (bucket: VisitedBucket) => void,
): Operation<void> {
  const { geometry } = table;
  const bytes = geometry.bucketBytes[level];
  const words = new Scratch(count * bytes);
  yield* readQuiet(table, segments, level, first, count, words);
  for (let i = 0; i < count; i++) {
    const at = i * bytes;
    const high = words.i32[(at >> 2) + 1];
    if (!isInUse(high)) continue;
    const bucket = first + i;
    const address = segments.bucketAddress(level, bucket);
    const entries = geometry.entries[level];
    visit({ words, at, entries, level, bucket, address, version: stampOf(high) - 1 });
    if (level !== LEVELS - 1) continue;
    const link = (at + LEVEL3_LINK) >> 2;
    yield* visitChain(pointerOf(words.i32[link], words.i32[link + 1]), bucket, nodes, visit);
  }
}

/** Chains are shared by buckets that were one when the chain began. */
function* visitChain(
  first: number,
  bucket: number,
  nodes: Set<number>,
  visit: (bucket: VisitedBucket) => void,
): Operation<void> {
  for (let address = first; address !== NULL_ADDRESS && !nodes.has(address); ) {
    nodes.add(address);
    const words = new Scratch(NODE_BYTES);
    yield new Batch().read(address, NODE_BYTES, words, 0);
    const entries = NODE_LINK >> 3;
    visit({ words, at: 0, entries, level: CHAINS, bucket, address, version: 0 });
    address = pointerOf(words.i32[NODE_LINK >> 2], words.i32[(NODE_LINK >> 2) + 1]);
  }
}

/** Reads buckets when none of them is being moved. */
function* readQuiet(
  table: ShardTable,
  segments: Segments,
  level: number,
  first: number,
  count: number,
  words: Scratch,
): Operation<void> {
  const { geometry } = table;
  const bytes = geometry.bucketBytes[level];
  for (let round = 0; round < SETTLE_ROUNDS_MAX; round++) {
    const address = segments.homeAddress(level, first);
    yield new Batch().read(address, count * bytes, words, 0);
    yield* readRelocated(table, segments, level, first, count, words);
    let moving = 0;
    for (let i = 0; i < count; i++) {
      const goal = movingTo(words, i * bytes, bytes, geometry.bornAt(first + i));
      if (goal < 0) continue;
      if (goal > segments.version) yield* segments.load();
      // The table is being migrated; these words are what the bucket last held.
      if (goal > segments.version) continue;
      moving++;
      yield* bringTo(table, level, first + i, goal, undefined, segments);
    }
    if (moving === 0) return;
  }
}

/** Reads relocated buckets into the words, as if they were at home. */
function* readRelocated(
  { geometry }: ShardTable,
  segments: Segments,
  level: number,
  first: number,
  count: number,
  words: Scratch,
): Operation<void> {
  const bytes = geometry.bucketBytes[level];
  const batch = new Batch();
  for (let i = 0; i < count; i++) {
    const word = (i * bytes) >> 2;
    if (!segments.learnPlace(level, first + i, words.i32[word], words.i32[word + 1])) continue;
    batch.read(segments.bucketAddress(level, first + i), bytes, words, i * bytes);
  }
  if (batch.length > 0) yield batch;
}

/** The version that the bucket is being moved to; -1 when it is not being moved. */
function movingTo({ i32 }: Scratch, at: number, bytes: number, bornAt: number): number {
  let lowest = Number.POSITIVE_INFINITY;
  let highest = 0;
  let frozen = false;
  for (let word = at >> 2; word < (at + bytes) >> 2; word += 2) {
    const stamp = stampOf(i32[word + 1]);
    lowest = Math.min(lowest, stamp);
    highest = Math.max(highest, stamp);
    frozen ||= (i32[word + 1] & FROZEN) !== 0;
  }
  if (lowest === 0) return highest === 0 && !frozen ? -1 : bornAt;
  return frozen || lowest !== highest ? lowest : -1;
}
