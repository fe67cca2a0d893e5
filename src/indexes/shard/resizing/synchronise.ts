import type { Operation } from '../../../verbs/index.ts';
import { clearOverflow } from '../overflow/clear-overflow.ts';
import type { ShardTable } from '../table/table.ts';
import { resize } from './resize.ts';

/** Alpha is kept in ten-thousandths. */
const ALPHA_UNIT = 10_000;
/** Of the threshold: with chains, a table of this load is resized too. */
const CROWDED_SHARE = 2;
/**
 * Of the threshold: a table of this load is cleared of overflow bits, once after each resize.
 * Earlier most buckets have not been moved, and a key may still be below for each of them.
 */
const CLEARING_SHARE = 0.75;
/** Synchronisations that a client has still before it, as far as it can tell, at any time. */
const AHEAD = 2;

/** Whether `recordsChanged` would synchronise after so many writes more. */
export function isReportDue(table: ShardTable, writes = 0): boolean {
  return table.crowded || table.writes + writes >= table.syncEvery;
}

/** After an insertion or a removal; now and then the time for a synchronisation has come. */
export function* recordsChanged(table: ShardTable, difference: number): Operation<void> {
  table.unreported += difference;
  table.writes++;
  if (isReportDue(table)) yield* synchronise(table);
}

/**
 * Adaptive frequency synchronisation (section 3.4): every F writes a client reports how many
 * records it has inserted and reads the root, one doorbell, with F = alpha * T * (R - L) for T
 * entries, the threshold R and the load L. It decides only how soon a resize is triggered and
 * known; no operation depends on it, so searches do without.
 *
 * A client begins with every write and doubles the distance up to F, so that one that lives for a
 * few writes only leaves at most half of them unreported. When chains grow although the reported
 * load is only half of the threshold, that is taken for such a loss.
 *
 * F is each client's own: of n clients the last report may come n * F insertions after the first,
 * which for n * alpha > 1 is beyond the threshold, and far beyond in a small table. So a client
 * also reports before its share of the insertions since its last report lets the table fill up.
 */
export function* synchronise(table: ShardTable): Operation<void> {
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
