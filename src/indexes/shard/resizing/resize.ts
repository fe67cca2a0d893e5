import { hasCode } from '../../../errors.ts';
import { BLOCK_UNITS_MAX, CHUNK_BYTES } from '../../../pool/layout.ts';
import { CHUNK_SPAN, type ChunkWord, unpackChunk } from '../../../pool/memory/chunk-word.ts';
import type { Pool } from '../../../pool/pool.ts';
import type { Operation } from '../../../verbs/index.ts';
import { eachBucket } from '../each-bucket.ts';
import { clearOverflow } from '../overflow.ts';
import { LEVELS } from '../table/geometry.ts';
import { discardSegment, makeSegment, type SegmentPlace } from '../table/pieces.ts';
import type { Segments } from '../table/segments.ts';
import { isLive } from '../table/slot.ts';
import { CLAIM_PATIENCE, type ShardTable } from '../table/table.ts';
import { bringTo } from './catch-up.ts';

/** Alpha is kept in ten-thousandths. */
const ALPHA_UNIT = 10_000;
/** Divides the threshold for a table with chains, which is resized at that lower load. */
const CROWDED_SHARE = 2;
/**
 * Part of the threshold at which a table is cleared of overflow bits, once after each resize.
 * Earlier most buckets have not been moved, and a key may still be below for each of them.
 */
const CLEARING_SHARE = 0.75;
/** Synchronisations that a client expects to make before the table fills up, at any time. */
const AHEAD = 2;

/** Whether `recordsChanged` would synchronise after this many more writes. */
function isReportDue(table: ShardTable, writes = 0): boolean {
  return table.crowded || table.writes + writes >= table.syncEvery;
}

/** Called after each insertion and removal; synchronises now and then. */
export function* recordsChanged(table: ShardTable, difference: number): Operation<void> {
  table.unreported += difference;
  table.writes++;
  if (isReportDue(table)) yield* synchronise(table);
}

/**
 * Adaptive frequency synchronisation (section 3.4): every F writes a client reports how many
 * records it has inserted and reads the root, in one doorbell. F = alpha * T * (R - L) for T
 * entries, the threshold R and the load L. F decides only how soon a resize is triggered and known;
 * no operation depends on it, so searches do without.
 *
 * A client begins with every write and doubles the distance up to F. So a client that lives for a
 * few writes leaves at most half of them unreported. When chains grow although the reported load is
 * only half of the threshold, the client assumes such a loss.
 *
 * Each client has its own F: the last of n clients may report n * F insertions after the first. For
 * n * alpha > 1 that is beyond the threshold, and far beyond in a small table. So a client also
 * reports before its share of the insertions since its last report lets the table fill up.
 */
function* synchronise(table: ShardTable): Operation<void> {
  const { geometry } = table;
  const records = table.unreported;
  const { reported } = table;
  // At once, because operations in flight together share the table.
  table.unreported = 0;
  table.writes = 0;
  table.reported = yield* table.report(records);
  if (isDue(table)) yield* grow(table);
  else if (table.isClearingDue && table.reported >= CLEARING_SHARE * limitOf(table)) {
    table.isClearingDue = false;
    yield* clearOverflow(table);
  }
  table.crowded = false;
  const { alpha, threshold } = geometry.shape;
  const capacity = geometry.capacityAt(table.segments.version);
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
  const limit = limitOf(table);
  return table.crowded ? limit / CROWDED_SHARE : limit;
}

/** Records at which the table is to be resized. */
function limitOf({ segments, geometry }: ShardTable): number {
  return (geometry.capacityAt(segments.version) * geometry.shape.threshold) / 100;
}

/** The same at most, after the pool had no room for the segment. */
const CLAIM_PATIENCE_MAX = 128;

/**
 * Doubles the table (section 3.3): one CAS publishes a segment as large as all before it. There is
 * no table lock and no barrier. A client that knows only the earlier version keeps using the
 * buckets that have not been moved, and finds out at the first that has.
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
 * Without lazy resizing: moves all buckets at once, level by level. `segments` are those that were
 * resized: another operation of this client may replace the table's own by an earlier reading.
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

/**
 * Corrects the number of records that clients have reported to the table's root, and returns it. A
 * client that dies never reports its last removals, so the number stays too high. After many deaths
 * the table would be resized again and again with few records in it.
 *
 * This counts what living clients have yet to report: the number is too high by that until the next
 * count. Two clients that count at once correct it twice. Neither matters: the number decides only
 * how soon the table is resized.
 */
export function* recount(table: ShardTable): Operation<number> {
  table.unreported = 0;
  yield* table.load();
  const before = table.reported;
  let records = 0;
  yield* eachBucket(table, ({ words: { i32 }, at, entries }) => {
    for (let word = at >> 2; word < (at >> 2) + 2 * entries; word += 2) {
      if (isLive(i32[word], i32[word + 1])) records++;
    }
  });
  table.reported = yield* table.report(records - before);
  return table.reported;
}

/** Whether clients have died that may not have reported all of their writes. */
function* mayBeMiscounted({ pool, catalog, segments }: ShardTable): Operation<boolean> {
  // A count would fetch all buckets of a table that is being migrated.
  return segments.former === undefined && (yield* pool.catalog.unswept(catalog)) > 0;
}

/**
 * Gives back the spans of resizers that died after they had taken a segment and before they
 * published it; smaller segments are blocks, which a sweep finds. The order proves it:
 *
 *   1  the chunk table    spans that are taken from now on do not matter, be it by a new client
 *   2  living clients     the owners of all other spans issue no verbs any more
 *   3  all roots          so they name every segment that they have published
 *
 * A span of 1 without an owner in 2 that 3 does not name is no client's. A few READs once a resize.
 * Returns how many chunks came back.
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
    const isOwn = row.id === membership.id;
    if (isOwn || !(yield* membership.isGone(row))) living.add(nameOf(row.id, row.incarnation));
  }
  return living;
}

function nameOf(owner: number, incarnation: number): string {
  return `${owner}/${incarnation}`;
}

/**
 * Where tables are migrated it may also be what a migration has left whose mover died before it was
 * given back: others may still be looking at that.
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
