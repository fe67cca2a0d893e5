import { StepwellError } from '../../errors.ts';
import type { Allocator } from '../../pool/allocator.ts';
import { ANY_NODE } from '../../pool/chunks.ts';
import { BLOCK_UNITS_MAX } from '../../pool/layout.ts';
import {
  type Address,
  Batch,
  type Operation,
  Scratch,
  setWord,
  UNIT_BYTES,
} from '../../verbs/index.ts';
import { bringTo } from './catch-up.ts';
import { LEVELS, type ShardGeometry } from './geometry.ts';
import { releaseLostSegments } from './lost-segments.ts';
import type { Segments } from './segments.ts';
import { freshHigh } from './slot.ts';
import type { ShardTable } from './table.ts';

const WRITE_BYTES = 32 * 1024;
/** Synchronisations after which a resize that another client has claimed is taken over. */
const CLAIM_PATIENCE = 8;

/**
 * Doubles the table (section 3.3): a segment as large as all before it, and one CAS that publishes
 * it. There is no table lock and no barrier: whoever knows only the earlier version goes on with
 * the buckets that have not been moved, and finds out at the first that has.
 *
 * One client at a time makes a segment, so that memory is not taken many times over. The claim
 * protects nothing: when its holder is slow or dead, another one does it too, and one CAS wins.
 */
export function* resize(table: ShardTable): Operation<boolean> {
  const { geometry, segments } = table;
  const segment = segments.version + 1;
  if (segment > geometry.shape.resizes) return false;
  if (!(yield* segments.claim(segment)) && ++table.claimsSeen < CLAIM_PATIENCE) return false;
  table.claimsSeen = 0;
  // Whoever had claimed it before may have died with a segment that nobody knows of.
  if (geometry.segmentUnits(segment) > BLOCK_UNITS_MAX) yield* releaseLostSegments(table);
  let address: Address;
  try {
    address = yield* makeOwnSegment(table, segment);
  } catch (error) {
    // A full pool is no error yet: there is room for records in level 3, and the next may succeed.
    if (!(error instanceof StepwellError && error.code === 'SW_POOL_FULL')) throw error;
    return false;
  }
  if (!(yield* segments.publish(segment, address))) {
    yield* discardSegment(table, segment, address);
    return true;
  }
  table.resizes++;
  if (!table.techniques.lazy) yield* moveAll(table, segments, segment);
  return true;
}

/**
 * Without lazy resizing: all buckets at once, level by level. Of the segments that were resized:
 * the table's own may be read anew by another operation of this client, from before that.
 */
function* moveAll(table: ShardTable, segments: Segments, version: number): Operation<void> {
  const buckets = table.geometry.bucketsAt(version - 1);
  for (let level = 0; level < LEVELS; level++) {
    for (let bucket = 0; bucket < buckets; bucket++) {
      yield* bringTo(table, level, bucket, version, undefined, segments);
    }
  }
}

/**
 * The next segment, on the memory node of the others. When that one is full the table goes on on
 * another one: a later rebalancing brings it together again.
 */
function* makeOwnSegment(table: ShardTable, segment: number): Operation<Address> {
  const { allocator, catalog, geometry, pool } = table;
  const units = geometry.segmentUnits(segment);
  if (pool.layout.stripe > 1) {
    try {
      return yield* makeSegment(allocator, catalog, units, table.node);
    } catch (error) {
      if (!(error instanceof StepwellError && error.code === 'SW_POOL_FULL')) throw error;
      table.displaced++;
    }
  }
  return yield* makeSegment(allocator, catalog, units);
}

/** A segment of words that have never been initialised. */
export function* makeSegment(
  allocator: Allocator,
  catalog: number,
  units: number,
  node: number = ANY_NODE,
): Operation<Address> {
  const address = yield* allocator.allocate(catalog, units, node);
  // Spans are zero; a block may have been something else before.
  if (units <= BLOCK_UNITS_MAX) yield* fill(address, units * UNIT_BYTES, 0);
  return address;
}

/** The first segment of a new table: fresh slots. */
export function* makeFirstSegment(
  allocator: Allocator,
  catalog: number,
  geometry: ShardGeometry,
  node: number = ANY_NODE,
): Operation<Address> {
  const units = geometry.segmentUnits(0);
  const address = yield* makeSegment(allocator, catalog, units, node);
  yield* fill(address, units * UNIT_BYTES, freshHigh(0));
  return address;
}

function* fill(address: Address, bytes: number, high: number): Operation<void> {
  const image = new Scratch(Math.min(bytes, WRITE_BYTES));
  for (let at = 0; at < image.u8.length; at += 8) setWord(image, at, 0, high);
  for (let at = 0; at < bytes; at += WRITE_BYTES) {
    yield new Batch().write(address + at, Math.min(WRITE_BYTES, bytes - at), image, 0);
  }
}

/** Gives back a segment that was never seen by anybody: another client was faster. */
export function* discardSegment(
  table: ShardTable,
  segment: number,
  address: Address,
): Operation<void> {
  const { allocator, catalog, geometry } = table;
  const units = geometry.segmentUnits(segment);
  if (units > BLOCK_UNITS_MAX) yield* allocator.spans.release(catalog, address, units);
  else allocator.discard(catalog, units, address);
}
