import { type Address, Batch, NULL_ADDRESS, type Operation, Scratch } from '../../verbs/index.ts';
import { CycleGuard } from '../substrates/cycle-guard.ts';
import { bringAll, bringTo } from './resizing/catch-up.ts';
import { LEVEL3_LINK, LEVELS, NODE_BYTES, NODE_LINK } from './table/geometry.ts';
import type { Segments } from './table/segments.ts';
import { FROZEN, isEmpty, isInUse, isLive, pointerAt, stampOf } from './table/slot.ts';
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
  version: number;
}

/** Visits the entries from `at` on that are not empty. */
export function eachEntry(
  { i32 }: Scratch,
  at: number,
  entries: number,
  visit: (low: number, high: number) => void,
): void {
  for (let word = at >> 2; word < (at >> 2) + 2 * entries; word += 2) {
    const [low, high] = [i32[word], i32[word + 1]];
    if (!isEmpty(low, high)) visit(low, high);
  }
}

/** How many of the entries from `at` on hold committed records. */
export function countLive(words: Scratch, at: number, entries: number): number {
  let live = 0;
  eachEntry(words, at, entries, (low, high) => {
    if (isLive(low, high)) live++;
  });
  return live;
}

/** Counts a table's records and chain nodes without reading records. */
export function* countRecords(table: ShardTable): Operation<{ records: number; nodes: number }> {
  const counted = { records: 0, nodes: 0 };
  yield* eachBucket(table, ({ words, at, entries, level }) => {
    if (level === CHAINS) counted.nodes++;
    counted.records += countLive(words, at, entries);
  });
  return counted;
}

/** Visits the nodes of a chain, one round trip each, up to one that `reads` refuses. */
export function* eachNode(
  first: Address,
  visit: (words: Scratch, address: Address) => void,
  reads: (address: Address) => boolean = () => true,
): Operation<void> {
  const guard = new CycleGuard();
  for (let address = first; address !== NULL_ADDRESS && reads(address); ) {
    guard.pass(address);
    const words = new Scratch(NODE_BYTES);
    yield new Batch().read(address, NODE_BYTES, words, 0);
    visit(words, address);
    address = pointerAt(words, NODE_LINK);
  }
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
  const { former, fetchedAt } = table.segments;
  if (former) yield* bringAll(table, table.segments, fetchedAt, fetchedAt);
  const { segments } = table;
  const nodes = new Set<Address>();
  const pieces = geometry.firstPiece(segments.version + 1);
  for (let level = firstLevel; level < LEVELS; level++) {
    const bytes = geometry.bucketBytes[level];
    const perRead = Math.max(1, Math.floor(READ_BYTES / bytes));
    for (let piece = 0; piece < pieces; piece++) {
      const { first, count } = geometry.bucketsOfPiece(piece);
      for (let i = 0; i < count; i += perRead) {
        const some = Math.min(perRead, count - i);
        const words = new Scratch(some * bytes);
        const run = { segments, level, first: first + i, count: some, words };
        yield* readQuiet(table, run);
        yield* visitRun(table, run, nodes, visit);
      }
    }
  }
}

/** Neighbouring buckets of a level in one piece, and their words. */
interface Run {
  segments: Segments;
  level: number;
  first: number;
  count: number;
  words: Scratch;
}

function* visitRun(
  { geometry }: ShardTable,
  { segments, level, first, count, words }: Run,
  nodes: Set<Address>,
  visit: (bucket: VisitedBucket) => void,
): Operation<void> {
  for (let i = 0; i < count; i++) {
    const at = i * geometry.bucketBytes[level];
    const high = words.i32[(at >> 2) + 1];
    if (!isInUse(high)) continue;
    const bucket = first + i;
    const address = segments.bucketAddress(level, bucket);
    const entries = geometry.entries[level];
    visit({ words, at, entries, level, bucket, address, version: stampOf(high) - 1 });
    if (level !== LEVELS - 1) continue;
    // Chains are shared by buckets that were one when the chain began.
    const isNew = (node: Address) => !nodes.has(node);
    const visitNode = (node: Scratch, place: Address) => {
      nodes.add(place);
      const where = { level: CHAINS, bucket, address: place, version: 0 };
      visit({ words: node, at: 0, entries: NODE_LINK >> 3, ...where });
    };
    yield* eachNode(pointerAt(words, at + LEVEL3_LINK), visitNode, isNew);
  }
}

/** Reads buckets when none of them is being moved. */
function* readQuiet(table: ShardTable, run: Run): Operation<void> {
  const { geometry } = table;
  const { segments, level, first, count, words } = run;
  const bytes = geometry.bucketBytes[level];
  for (let round = 0; round < SETTLE_ROUNDS_MAX; round++) {
    const address = segments.homeAddress(level, first);
    yield new Batch().read(address, count * bytes, words, 0);
    yield* readRelocated(table, run);
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
  { segments, level, first, count, words }: Run,
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
