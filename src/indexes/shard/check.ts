import { type Address, highHalf, type Operation, UNIT_BYTES } from '../../verbs/index.ts';
import type { CheckSink } from '../contract.ts';
import { lengthOf } from '../substrates/claims/slot-format.ts';
import { checkEach, checkRecord, checkSearch } from '../traversal/check-records.ts';
import { CHAINS, eachBucket, eachEntry, type VisitedBucket } from './each-bucket.ts';
import { search } from './operations/search.ts';
import { NODE_UNITS } from './overflow.ts';
import type { Partitions } from './partitions/partitions.ts';
import { partitionOf } from './partitions/placement.ts';
import { learnRelocations } from './resizing/new-bucket.ts';
import { hashOfPlace, LEVEL_OF_PLACE, LEVELS, NODE_BYTES, PLACES } from './table/geometry.ts';
import type { ShardRequest } from './table/request.ts';
import {
  fingerprintOf,
  isLive,
  OVERFLOW_MASK,
  pointerOf,
  segmentIdOf,
  stampOf,
} from './table/slot.ts';
import type { ShardTable } from './table/table.ts';

interface LiveEntry {
  record: Address;
  units: number;
  fingerprint: number;
  segmentId: number;
  level: number;
  bucket: number;
  version: number;
}

/** Checks all tables, and that every key is in the table of its partition. */
export function* checkTables(partitions: Partitions, sink: CheckSink): Operation<number> {
  let records = 0;
  for (const table of partitions.tables) records += yield* checkTable(table, sink);
  for (const [address, bytes] of yield* partitions.directory.places()) {
    // The directory has no block of its own: it is in a span.
    if (address !== partitions.directory.root) sink.reachable(address, bytes / UNIT_BYTES);
  }
  for (const table of partitions.tables) {
    const { former } = table.segments;
    if (former === undefined) continue;
    yield* learnRelocations(table, former);
    for (const { address, level } of former.relocations()) {
      sink.reachable(address, table.geometry.relocatedUnits(level));
    }
  }
  return records;
}

/** A table, and what a walk over its buckets has found. */
interface Walked {
  readonly table: ShardTable;
  readonly sink: CheckSink;
  readonly entries: LiveEntry[];
  /** By level: the versions of the buckets that are in use. */
  readonly versions: readonly Map<number, number>[];
  /** Buckets of level 1 that have an overflow bit. */
  readonly overflowed: Set<number>;
}

/**
 * Verifies every invariant of a table. Every bucket is of one version. New buckets are initialised
 * exactly when the bucket they came from has left for their version. Every record is intact, in a
 * bucket of its key, under its fingerprint, segment id and length, and a search for its key finds
 * it.
 */
function* checkTable(table: ShardTable, sink: CheckSink): Operation<number> {
  const entries: LiveEntry[] = [];
  const versions = Array.from({ length: LEVELS }, () => new Map<number, number>());
  const walked: Walked = { table, sink, entries, versions, overflowed: new Set() };
  yield* eachBucket(table, (visited) => checkBucket(walked, visited));
  for (let level = 0; level < LEVELS; level++) checkLineage(walked, level);
  const newRequest = () => table.newRequest();
  yield* checkEach(sink, entries, newRequest, function* (entry, request) {
    const isIntact = yield* checkRecord(table.records, request, entry, sink);
    if (isIntact) yield* checkKey(walked, request, entry);
    if (entry.level > 0) checkOverflow(walked, request, entry);
  });
  return entries.length;
}

function checkBucket(
  { table, sink, versions, overflowed, entries }: Walked,
  visited: VisitedBucket,
): void {
  const { words, at, level, bucket, version, address } = visited;
  if (level === CHAINS) {
    sink.reachable(address, NODE_UNITS);
    checkNode(visited, sink);
  } else {
    if (address !== table.segments.homeAddress(level, bucket)) {
      sink.reachable(address, table.geometry.relocatedUnits(level));
    }
    versions[level].set(bucket, version);
    checkStamps(table, visited, sink);
  }
  if (level === 0 && (highHalf(words, at) & OVERFLOW_MASK) !== 0) overflowed.add(bucket);
  eachEntry(words, at, visited.entries, (low, high) => {
    if (!isLive(low, high)) return;
    const [record, units] = [pointerOf(low, high), lengthOf(high)];
    const [fingerprint, segmentId] = [high >>> 24, segmentIdOf(high)];
    entries.push({ record, units, fingerprint, segmentId, level, bucket, version });
  });
}

function checkStamps(
  table: ShardTable,
  { words, at, level, bucket, version }: VisitedBucket,
  sink: CheckSink,
): void {
  const where = `bucket ${bucket} of level ${level + 1}`;
  if (version > table.segments.version) sink.problem(`${where}: version ${version} is ahead`);
  for (let i = at; i < at + table.geometry.bucketBytes[level]; i += 8) {
    const stamp = stampOf(words.i32[(i >> 2) + 1]);
    if (stamp !== version + 1) sink.problem(`${where}: stamps ${stamp} and ${version + 1}`);
  }
}

/** A chain node has no version, but none of its words is ever 0. */
function checkNode({ words, address }: VisitedBucket, sink: CheckSink): void {
  for (let at = 0; at < NODE_BYTES; at += 8) {
    if (stampOf(words.i32[(at >> 2) + 1]) !== 0) continue;
    sink.problem(`chain node at ${address}: word ${at / 8} was lost`);
  }
}

/**
 * The first buckets are always there. A bucket at version v has split off its new buckets up to v,
 * and no others.
 */
function checkLineage({ table, versions: all, sink }: Walked, level: number): void {
  const { geometry, segments } = table;
  const versions = all[level];
  for (let bucket = 0; bucket < geometry.bucketsAt(0); bucket++) {
    if (!versions.has(bucket)) sink.problem(`bucket ${bucket} of level ${level + 1} was lost`);
  }
  for (const [bucket, version] of versions) {
    for (let v = geometry.bornAt(bucket); v < segments.version; v++) {
      const child = bucket + geometry.bucketsAt(v);
      if (versions.has(child) === v < version) continue;
      const what = v < version ? 'was never initialised' : 'was initialised too early';
      sink.problem(`bucket ${child} of level ${level + 1} ${what}`);
    }
  }
}

function* checkKey(
  { table, sink }: Walked,
  request: ShardRequest,
  entry: LiveEntry,
): Operation<void> {
  const where = `record at ${entry.record}`;
  if (fingerprintOf(request.hash.h4) !== entry.fingerprint) {
    sink.problem(`${where}: wrong fingerprint`);
  }
  if (partitionOf(request.hash, table.geometry.shape.partitions) !== table.partition) {
    sink.problem(`${where}: wrong partition`);
  }
  if (!isPlaced(table, request, entry)) sink.problem(`${where}: wrong bucket or segment id`);
  request.begin();
  yield* checkSearch((one: ShardRequest) => search(table, one), request, entry.record, sink);
}

/** Whether one of the key's hash words for the level leads to the entry's bucket. */
function isPlaced({ geometry }: ShardTable, { hash }: ShardRequest, entry: LiveEntry): boolean {
  const { level, bucket, version, segmentId } = entry;
  // A chain belongs to all buckets that came from the one that it began in.
  if (level === CHAINS) return geometry.bucketOf(hash.h4 ^ bucket, 0) === 0;
  for (let place = 0; place < PLACES; place++) {
    if (LEVEL_OF_PLACE[place] !== level) continue;
    const word = hashOfPlace(hash, place);
    if (geometry.bucketOf(word, version) !== bucket) continue;
    if (geometry.segmentId(word, version) === segmentId) return true;
  }
  return false;
}

/** A record in level 2 or 3 is only looked for when its bucket of level 1 says so. */
function checkOverflow(
  { table: { geometry, segments }, versions: [versions], overflowed, sink }: Walked,
  { hash }: ShardRequest,
  entry: LiveEntry,
): void {
  let bucket = geometry.bucketOf(hash.h1, segments.version);
  while (!versions.has(bucket)) bucket = geometry.parentOf(bucket);
  if (overflowed.has(bucket)) return;
  sink.problem(`record at ${entry.record}: bucket ${bucket} of level 1 has no overflow bit`);
}
