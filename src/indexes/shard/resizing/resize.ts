import { hasCode } from '../../../errors.ts';
import { BLOCK_UNITS_MAX } from '../../../pool/layout.ts';
import type { Operation } from '../../../verbs/index.ts';
import { LEVELS } from '../table/geometry.ts';
import { discardSegment, makeSegment, type SegmentPlace } from '../table/pieces.ts';
import type { Segments } from '../table/segments.ts';
import { CLAIM_PATIENCE, type ShardTable } from '../table/table.ts';
import { bringTo } from './catch-up.ts';
import { releaseLostSegments } from './lost-segments.ts';
import { mayBeMiscounted, recount } from './recount.ts';

/** The same at most, after the pool had no room for the segment. */
const CLAIM_PATIENCE_MAX = 128;

/**
 * Doubles the table (section 3.3): a segment as large as all before it, and one CAS that publishes
 * it. There is no table lock and no barrier: a client that knows only the earlier version goes on
 * with the buckets that have not been moved, and finds out at the first that has.
 *
 * One client at a time makes a segment, so that memory is not taken many times over. The claim
 * protects nothing: when its holder is slow or dead, another one does it too, and one CAS wins.
 *
 * After clients have died the records are counted first: fewer than `least` are not worth it.
 */
export function* resize(table: ShardTable, least = 0): Operation<boolean> {
  const { allocator, catalog, geometry, segments } = table;
  const segment = segments.version + 1;
  if (segment > geometry.shape.resizes) return false;
  if (yield* segments.claim(segment)) table.claimPatience = CLAIM_PATIENCE;
  else if (++table.claimsSeen < table.claimPatience) return false;
  table.claimsSeen = 0;
  if (least > 0 && (yield* mayBeMiscounted(table)) && (yield* recount(table)) < least) {
    yield* segments.unclaim(segment);
    return false;
  }
  // A client that had claimed it before may have died with a segment that no other knows of.
  const units = geometry.pieceUnits(geometry.firstPiece(segment));
  if (units > BLOCK_UNITS_MAX) yield* releaseLostSegments(table);
  let place: SegmentPlace;
  try {
    place = yield* makeOwnSegment(table, segment);
  } catch (error) {
    // The write that synchronises has its slot, and the next finds one in level 3: a chain node
    // that the pool has no room for is that write's error. `stats` and the event `resize` tell of
    // this. The claim stays, so the next attempt comes after some synchronisations: of more and
    // more, because each looks through the whole pool. A table whose chains grow synchronises with
    // each new node, so it grows soon after there is room again.
    if (!hasCode(error, 'SW_POOL_FULL')) throw error;
    table.postponed++;
    table.claimPatience = Math.min(2 * table.claimPatience, CLAIM_PATIENCE_MAX);
    return false;
  }
  if (!(yield* segments.publish(segment, place))) {
    yield* discardSegment(allocator, catalog, geometry, segment, place);
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
function* makeOwnSegment(table: ShardTable, segment: number): Operation<SegmentPlace> {
  const { allocator, catalog, geometry, pool } = table;
  if (pool.layout.stripe > 1) {
    try {
      return yield* makeSegment(allocator, catalog, geometry, segment, table.node);
    } catch (error) {
      if (!hasCode(error, 'SW_POOL_FULL')) throw error;
      table.displaced++;
    }
  }
  return yield* makeSegment(allocator, catalog, geometry, segment);
}
