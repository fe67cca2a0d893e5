import type { Operation } from '../../../verbs/index.ts';
import { eachBucket } from '../shape.ts';
import { isLive } from '../table/slot.ts';
import type { ShardTable } from '../table/table.ts';

/**
 * Corrects the number of records that clients have reported to the table's root, and returns it. A
 * client that dies takes with it what it has not reported. Its removals let the number stay too
 * high, and by many deaths the table would be resized again and again with few records in it.
 *
 * What living clients have not reported yet is counted here and reported later: the number is too
 * high by that until the next count. Two clients that count at once correct it twice. Neither
 * matters: the number decides only how soon the table is resized.
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
export function* mayBeMiscounted({ pool, catalog, segments }: ShardTable): Operation<boolean> {
  // A count would fetch all buckets of a table that is being migrated.
  return segments.former === undefined && (yield* pool.catalog.unswept(catalog)) > 0;
}
