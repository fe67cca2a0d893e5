import type { Operation } from '../../verbs/index.ts';
import { resize } from './resize.ts';
import type { ShardTable } from './table.ts';

/** Alpha is kept in ten-thousandths. */
const ALPHA_UNIT = 10_000;
/** Of the threshold: with chains, a table of this load is resized too. */
const CROWDED_SHARE = 2;

/** After an insertion or a removal; now and then the time for a synchronisation has come. */
export function* recordsChanged(table: ShardTable, difference: number): Operation<void> {
  table.unreported += difference;
  table.writes++;
  if (table.crowded || table.writes >= table.syncEvery) yield* synchronise(table);
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
 */
export function* synchronise(table: ShardTable): Operation<void> {
  const { segments, geometry } = table;
  const records = table.unreported;
  // At once, because operations in flight together share the table.
  table.unreported = 0;
  table.writes = 0;
  table.reported = yield* segments.report(records);
  if (isDue(table)) yield* resize(table);
  table.crowded = false;
  const { alpha, threshold } = geometry.shape;
  const capacity = geometry.capacityAt(segments.version);
  const room = (capacity * threshold) / 100 - table.reported;
  const least = isDue(table) ? Math.ceil((capacity * threshold) / 1000) : 1;
  const frequency = Math.max(least, Math.floor((alpha / ALPHA_UNIT) * room));
  const adaptive = Math.max(1, Math.min(2 * table.syncEvery, frequency));
  const { synchronisation } = table.techniques;
  table.syncEvery = synchronisation === 'adaptive' ? adaptive : synchronisation;
}

function isDue({ segments, geometry, reported, crowded }: ShardTable): boolean {
  const limit = (geometry.capacityAt(segments.version) * geometry.shape.threshold) / 100;
  return reported >= (crowded ? limit / CROWDED_SHARE : limit);
}
