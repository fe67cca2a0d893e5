import { hasCode } from '../../../errors.ts';
import { BLOCK_UNITS_MAX, CHUNK_BYTES } from '../../../pool/layout.ts';
import { CHUNK_SPAN, type ChunkWord, unpackChunk } from '../../../pool/memory/chunk-word.ts';
import type { Pool } from '../../../pool/pool.ts';
import type { Operation } from '../../../verbs/index.ts';
import { countRecords } from '../each-bucket.ts';
import { clearOverflow } from '../overflow.ts';

import { discardSegment, makeSegment, type SegmentPlace } from '../table/pieces.ts';

import { CLAIM_PATIENCE, type ShardTable } from '../table/table.ts';
import { bringAll } from './catch-up.ts';

/** Alpha is kept in ten-thousandths. */
const ALPHA_UNIT = 10_000;
/** A table with chains is resized at the threshold divided by this. */
const CROWDED_SHARE = 2;
/**
 * Share of the threshold at which overflow bits are cleared, once after each resize. Any earlier,
 * most buckets would not have been moved yet, and might still have keys below.
 */
const CLEARING_SHARE = 0.75;
/** Synchronisations that a client plans to make before the table fills up. */
const AHEAD = 2;

/** Called after each insertion and removal; synchronises now and then. */
export function* recordsChanged(table: ShardTable, difference: number): Operation<void> {
  table.unreported += difference;
  table.writes++;
  if (table.crowded || table.writes >= table.syncEvery) yield* synchronise(table);
}

/**
 * Adaptive frequency synchronisation (section 3.4): every F writes a client reports how many
 * records it has inserted and reads the root, in one doorbell. F = alpha * T * (R - L) for T
 * entries, the threshold R and the load L. F decides only how soon a resize is triggered and known;
 * no operation depends on it, so searches do not synchronise.
 *
 * A client first synchronises after every write, and doubles the interval up to F. So a client that
 * dies after a few writes leaves at most half of them unreported. If chains grow although the
 * reported load is only half of the threshold, the client assumes such a loss.
 *
 * Each client has its own F: when the last of n clients reports, there may have been n * F
 * insertions. For n * alpha > 1 that is beyond the threshold, and far beyond in a small table. So a
 * client also reports before the table would fill up if its share of all insertions stays as it
 * was.
 */
function* synchronise(table: ShardTable): Operation<void> {
  const { unreported: records, reported } = table;
  // Reset before the report, because other operations of this client use the same table.
  table.unreported = 0;
  table.writes = 0;
  table.reported = yield* table.report(records);
  if (isDue(table)) yield* grow(table);
  else if (table.isClearingDue && table.reported >= CLEARING_SHARE * limitOf(table)) {
    table.isClearingDue = false;
    yield* clearOverflow(table);
  }
  table.crowded = false;
  const { alpha, threshold } = table.geometry.shape;
  const capacity = table.geometry.capacityAt(table.segments.version);
  const room = (capacity * threshold) / 100 - table.reported;
  const least = isDue(table) ? Math.ceil((capacity * threshold) / 1000) : 1;
  const published = (alpha / ALPHA_UNIT) * room;
  const untilFull = (room * shareOf(records, table.reported - reported)) / AHEAD;
  const wanted = table.techniques.shares ? Math.min(published, untilFull) : published;
  const next = Math.min(2 * table.syncEvery, Math.max(least, Math.floor(wanted)));
  if (table.techniques.adaptive) table.syncEvery = Math.max(1, next);
}

/** This client's part of the records that were added since its last report. */
function shareOf(own: number, all: number): number {
  return own <= 0 || all <= own ? 1 : own / all;
}

function* grow(table: ShardTable): Operation<void> {
  const { resizes } = table;
  yield* resize(table, recordsDue(table));
  table.isClearingDue = table.techniques.clearing && table.resizes > resizes;
}

function isDue(table: ShardTable): boolean {
  return table.reported >= recordsDue(table);
}

function recordsDue(table: ShardTable): number {
  return limitOf(table) / (table.crowded ? CROWDED_SHARE : 1);
}

/** Number of records at which the table is resized. */
function limitOf({ segments, geometry }: ShardTable): number {
  return (geometry.capacityAt(segments.version) * geometry.shape.threshold) / 100;
}

/** Upper bound of `claimPatience`, which doubles whenever the pool has no room for a segment. */
const CLAIM_PATIENCE_MAX = 128;

/**
 * Doubles the table (section 3.3): one CAS publishes a segment as large as all before it. There is
 * no table lock and no barrier. A client that knows only the earlier version keeps using the
 * buckets that have not been moved, and notices the resize at the first one that has.
 *
 * One client at a time makes a segment, to save memory. The claim is only a hint: if its holder is
 * slow or dead, another client makes the segment, too, and one CAS wins.
 *
 * If clients have died, it counts the records first, and does not resize for fewer than `least`.
 */
export function* resize(table: ShardTable, least = 0): Operation<boolean> {
  const { geometry, segments } = table;
  const segment = segments.version + 1;
  if (segment > geometry.shape.resizes) return false;
  if (yield* segments.claim(segment)) table.claimPatience = CLAIM_PATIENCE;
  else if (++table.claimsSeen < table.claimPatience) return false;
  table.claimsSeen = 0;
  if (least > 0 && (yield* mayBeMiscounted(table)) && (yield* recount(table)) < least) {
    yield* segments.unclaim(segment);
    return false;
  }
  // A client that claimed the resize before may have died and left a segment that no root names.
  const units = geometry.pieceUnits(geometry.firstPiece(segment));
  if (units > BLOCK_UNITS_MAX) yield* releaseLostSegments(table);
  let place: SegmentPlace;
  try {
    place = yield* makeOwnSegment(table, segment);
  } catch (error) {
    // Not an error of the write that synchronises: it has its slot. Later writes use level 3, and
    // fail if the pool has no room for a chain node. `stats` and the event `resize` count it as
    // `postponed`. The claim stays, so the next attempt comes after some synchronisations; after
    // more and more, because each attempt searches the whole pool. A table whose chains grow
    // synchronises with each new node, so it is resized soon after there is room again.
    if (!hasCode(error, 'SW_POOL_FULL')) throw error;
    table.postponed++;
    table.claimPatience = Math.min(2 * table.claimPatience, CLAIM_PATIENCE_MAX);
    return false;
  }
  if (!(yield* segments.publish(segment, place))) {
    yield* discardSegment(table, segment, place);
    return true;
  }
  table.resizes++;
  // In `segments`, because another operation may replace the table's by an older copy.
  if (!table.techniques.lazy) yield* bringAll(table, segments, segment - 1, segment);
  return true;
}

/**
 * Makes the next segment on the table's memory node, or on another one if that is full. A later
 * rebalancing brings the table together again.
 */
function* makeOwnSegment(table: ShardTable, segment: number): Operation<SegmentPlace> {
  if (table.pool.layout.stripe > 1) {
    try {
      return yield* makeSegment(table, segment, table.node);
    } catch (error) {
      if (!hasCode(error, 'SW_POOL_FULL')) throw error;
      table.displaced++;
    }
  }
  return yield* makeSegment(table, segment);
}

/**
 * Corrects the number of records that clients have reported to the table's root, and returns it. A
 * client that dies never reports its last removals, so the number stays too high. After many deaths
 * the table would be resized again and again with few records in it.
 *
 * The count includes writes that living clients have yet to report, so afterwards the number is
 * wrong by those until the next count. Two clients that count at once correct it twice. Neither
 * matters: the number decides only how soon the table is resized.
 */
export function* recount(table: ShardTable): Operation<number> {
  table.unreported = 0;
  yield* table.load();
  const before = table.reported;
  const { records } = yield* countRecords(table);
  table.reported = yield* table.report(records - before);
  return table.reported;
}

/** Whether clients have died that may not have reported all of their writes. */
function* mayBeMiscounted({ pool, catalog, segments }: ShardTable): Operation<boolean> {
  // During a migration a count would have to fetch all buckets.
  return segments.former === undefined && (yield* pool.catalog.unswept(catalog)) > 0;
}

/**
 * Frees the spans of resizers that died between allocating a segment and publishing it. Smaller
 * segments are blocks, which a sweep finds. It reads in this order:
 *
 *   1  the chunk table    spans that are allocated later, even by a new client, are not considered
 *   2  living clients     the owners of all other spans issue no verbs any more
 *   3  all roots          so these name every segment that those owners have published
 *
 * A span of 1 whose owner is not in 2 and that 3 does not name is lost. This costs a few READs per
 * resize. Returns how many chunks were freed.
 */
export function* releaseLostSegments(table: ShardTable): Operation<number> {
  const { pool } = table;
  const words = yield* pool.chunks.words();
  const living = yield* livingClients(pool);
  const known = yield* knownChunks(table);
  let released = 0;
  for (const [chunk, word] of words) {
    const fields = unpackChunk(word);
    if (fields.state !== CHUNK_SPAN || fields.catalog !== table.catalog) continue;
    if (living.has(nameOf(fields.owner, fields.incarnation)) || known.has(chunk)) continue;
    yield* giveBack(table, chunk, fields);
    released++;
  }
  return released;
}

function* livingClients({ membership }: Pool): Operation<Set<string>> {
  const living = new Set<string>();
  for (const row of yield* membership.rows()) {
    const isGone = row.id !== membership.id && (yield* membership.isGone(row));
    if (!isGone) living.add(nameOf(row.id, row.incarnation));
  }
  return living;
}

function nameOf(owner: number, incarnation: number): string {
  return `${owner}/${incarnation}`;
}

/**
 * With several memory nodes, the chunk may also belong to an old table whose migrating client died
 * before it freed it. Other clients may still read that, so the chunk is retired.
 */
function* giveBack({ catalog, pool }: ShardTable, chunk: number, word: ChunkWord): Operation<void> {
  const { allocator, chunks, layout, reclamation } = pool;
  if (layout.stripe === 1) return yield* chunks.release(chunk, word);
  const isOwn = yield* allocator.spans.takeOverChunk(catalog, chunk, word);
  if (isOwn) reclamation.retireSpan([chunk], catalog);
}

/** Chunks of the directory and of all segments that are spans. */
function* knownChunks({ directory, pool }: ShardTable): Operation<Set<number>> {
  const { chunks, layout } = pool;
  const known = new Set<number>();
  for (const [address, bytes] of yield* directory.places()) {
    const first = chunks.chunkOf(address);
    for (let i = 0; i < Math.ceil(bytes / CHUNK_BYTES); i++) known.add(first + i * layout.stripe);
  }
  return known;
}
