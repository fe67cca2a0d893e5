import { invariant, StepwellError } from '../../errors.ts';
import { BLOCK_UNITS_MAX } from '../../pool/layout.ts';
import type { Allocator } from '../../pool/memory/allocator.ts';
import {
  type Address,
  Batch,
  NULL_ADDRESS,
  type Operation,
  Scratch,
  setWord,
  UNIT_BYTES,
  writeInteger,
} from '../../verbs/index.ts';
import { BUCKETS_AT } from '../substrates/claims/slot-request.ts';
import { DEPTH_MAX, IDENTITY, PARENT, type RaceGeometry } from './geometry.ts';
import { bucketsOf, moveBuckets, settle } from './migrate.ts';
import type { RaceRequest } from './request.ts';
import { bucketHeaderHigh, depthOf, isReady, UNMOVED } from './slot.ts';
import type { RaceTable } from './table.ts';

/**
 * Buckets moved together: their records' cache misses overlap, and writers wait for few of them.
 */
const BUCKETS_AT_ONCE = 6;
const READ_BYTES = 32 * 1024;

/**
 * Splits the subtable in which an insertion found no vacant slot (RACE section 3.4.2). There is no
 * lock: the client that fills the directory entry of the child splits the subtable, and each later
 * client helps to move the buckets that it needs. A splitter that dies leaves a split that goes on
 * bucket by bucket as buckets are visited, and is completed before the next one.
 */
export function* split(table: RaceTable, request: RaceRequest): Operation<void> {
  const { directory } = table;
  const { subtable } = request;
  const { suffix, depth } = shallowestHeader(table, request);
  if (depth >= directory.maxDepth) {
    throw new StepwellError(
      'SW_INDEX_FULL',
      `the index has reached its maximum depth of ${directory.maxDepth}: ` +
        'stepwell copy makes a larger one',
    );
  }
  let child = yield* directory.child(suffix, depth);
  if (child === NULL_ADDRESS) {
    yield* completeEarlierMoves(table, subtable, suffix, depth);
    if (yield* directory.deepen(depth)) table.doublings++;
    child = yield* allocateSubtable(table.allocator, table.catalog, table.geometry);
    yield* writeChild(table.geometry, child, subtable, suffix + 2 ** depth, depth + 1);
    if (yield* directory.link(suffix, depth, child)) {
      table.splits++;
      yield* moveAll(table, subtable, child);
      return;
    }
    discardSubtable(table, child);
    child = yield* directory.child(suffix, depth);
    invariant(child !== NULL_ADDRESS, 'an entry of the directory that was filled is empty');
  }
  for (const bucket of bucketsOf(table, request)) {
    yield* moveBuckets(table, subtable, child, bucket, 1);
  }
}

/** Header with the least depth of the key's four buckets: a split may have raised the others. */
function shallowestHeader(table: RaceTable, request: RaceRequest) {
  const { bucketBytes, combinedBytes } = table.geometry;
  const { i32 } = request.words;
  let suffix = 0;
  let depth = Number.POSITIVE_INFINITY;
  for (let at = BUCKETS_AT; at < BUCKETS_AT + 2 * combinedBytes; at += bucketBytes) {
    const bucketDepth = depthOf(i32[(at >> 2) + 1]);
    if (bucketDepth >= depth) continue;
    depth = bucketDepth;
    suffix = i32[at >> 2];
  }
  invariant(suffix >>> depth === 0, 'the suffix of a bucket is longer than its depth');
  return { suffix, depth };
}

/** Before a subtable may be split again, every bucket must have arrived at the same depth. */
function* completeEarlierMoves(
  table: RaceTable,
  subtable: Address,
  suffix: number,
  depth: number,
): Operation<void> {
  const { geometry } = table;
  const perRead = Math.max(1, Math.floor(READ_BYTES / geometry.bucketBytes));
  const area = new Scratch(perRead * geometry.bucketBytes);
  for (let first = 0; first < geometry.buckets; first += perRead) {
    const count = Math.min(perRead, geometry.buckets - first);
    const address = geometry.bucketAddress(subtable, first);
    yield new Batch().read(address, count * geometry.bucketBytes, area, 0);
    for (let i = 0; i < count; i++) {
      const header = area.i32[((i * geometry.bucketBytes) >> 2) + 1];
      if (!isReady(header)) {
        yield* settle(table, subtable, first + i);
      } else if (depthOf(header) < depth) {
        yield* moveToChildAt(table, subtable, suffix, depthOf(header), first + i);
      }
    }
  }
}

function* moveToChildAt(
  table: RaceTable,
  subtable: Address,
  suffix: number,
  depth: number,
  bucket: number,
): Operation<void> {
  const earlier = suffix & (2 ** depth - 1);
  const child = yield* table.directory.child(earlier, depth);
  if (child !== NULL_ADDRESS) yield* moveBuckets(table, subtable, child, bucket, 1);
}

function* moveAll(table: RaceTable, subtable: Address, child: Address): Operation<void> {
  const { buckets } = table.geometry;
  for (let first = 0; first < buckets; first += BUCKETS_AT_ONCE) {
    const count = Math.min(BUCKETS_AT_ONCE, buckets - first);
    yield* moveBuckets(table, subtable, child, first, count);
  }
}

export function allocateSubtable(
  allocator: Allocator,
  catalog: number,
  geometry: RaceGeometry,
): Operation<Address> {
  return allocator.allocate(catalog, geometry.subtableUnits);
}

/** No other client has seen a child that lost the race for its directory entry. */
function discardSubtable(table: RaceTable, child: Address): void {
  const units = table.geometry.subtableUnits;
  if (units > BLOCK_UNITS_MAX) return; // a span: left to a sweep
  table.allocator.sizeClass(table.catalog, units).cache.push(child);
}

/** A child whose buckets wait for the parent's slots. */
function writeChild(
  geometry: RaceGeometry,
  address: Address,
  parent: Address,
  suffix: number,
  depth: number,
): Operation<void> {
  return writeSubtable(geometry, address, { parent, suffix, depth, ready: false });
}

/** Writes all of a subtable that no other client knows yet. */
export function* writeSubtable(
  geometry: RaceGeometry,
  address: Address,
  {
    parent,
    suffix,
    depth,
    ready,
  }: { parent: Address; suffix: number; depth: number; ready: boolean },
): Operation<void> {
  invariant(depth <= DEPTH_MAX && suffix >>> depth === 0, 'a subtable has no such suffix');
  const perWrite = Math.max(1, Math.floor(READ_BYTES / geometry.bucketBytes));
  const image = new Scratch(Math.min(perWrite, geometry.buckets) * geometry.bucketBytes);
  const identity = new Scratch(UNIT_BYTES);
  writeInteger(identity, PARENT, parent);
  setWord(identity, IDENTITY, suffix, depth);
  yield new Batch().write(address, UNIT_BYTES, identity, 0);
  const vacant = ready ? 0 : UNMOVED;
  for (let at = 0; at < image.u8.length; at += 8) {
    const isHeader = at % geometry.bucketBytes === 0;
    if (isHeader) setWord(image, at, suffix, bucketHeaderHigh(depth, ready));
    else setWord(image, at, 0, vacant);
  }
  for (let first = 0; first < geometry.buckets; first += perWrite) {
    const count = Math.min(perWrite, geometry.buckets - first);
    const bytes = count * geometry.bucketBytes;
    yield new Batch().write(geometry.bucketAddress(address, first), bytes, image, 0);
  }
}
