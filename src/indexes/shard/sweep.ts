import type { Operation } from '../../verbs/index.ts';
import {
  type EachClaim,
  visitClaims,
  withdrawAbandoned,
} from '../substrates/claims/abandoned-claims.ts';
import { closeEmptyChains } from './overflow/close-empty-chains.ts';
import type { Partitions } from './partitions/partitions.ts';
import { recount } from './resizing/recount.ts';
import { eachBucket } from './shape.ts';
import { SHARD_SLOTS } from './table/slot.ts';

/**
 * Takes back what pins chunks of a full pool and serves no key: claims of dead clients, with their
 * records, and chains of level 3 in which no key is any more. Without a sweep a claim stays until
 * its bucket is moved, and an empty chain until the client that makes the next resize closes it; a
 * full pool has no room for a resize.
 *
 * Claims go first, because a chain with a claim is not empty. A chain may be closed while others
 * insert, and a sweeper may die at any step: see close-empty-chains.ts. Returns how many claims and
 * chain nodes it took back. What dead clients have not reported is corrected meanwhile.
 */
export function* compact(
  partitions: Partitions,
  grace: () => Operation<boolean>,
): Operation<number> {
  let changed = yield* withdrawAbandoned(
    (visit) => eachClaim(partitions, visit),
    SHARD_SLOTS,
    grace,
  );
  for (const table of partitions.tables) {
    // A table that is being migrated shares its chains with the places that it leaves.
    if (table.segments.former !== undefined) continue;
    changed += yield* closeEmptyChains(table);
    yield* recount(table);
  }
  return changed;
}

/** Movers drop the claims that they have frozen. */
function* eachClaim(partitions: Partitions, visit: Parameters<EachClaim>[0]): Operation<void> {
  // In the grace period a table may have been migrated, and its old memory be re-used.
  yield* partitions.refresh();
  for (const table of partitions.tables) {
    yield* eachBucket(table, ({ words, at, entries, address }) => {
      visitClaims(SHARD_SLOTS, words, at, entries, address, visit);
    });
  }
}
