import type { Operation } from '../../../verbs/index.ts';
import type { SepHashRequest } from '../request.ts';
import { completeBit, filterIsClear, wantsBit } from '../segments/filter.ts';
import { versionAt } from '../segments/header.ts';
import type { SepHashTable } from '../table.ts';
import { firstEmpty, gather, postHeader, postRange, postSlots, readCandidates } from './lookup.ts';
import { aimForSearch, catchUp } from './refresh.ts';

/**
 * The first round trips of an operation that depends on what is there: a search that reads the
 * whole CurSegment and writes the operation's own record in the same doorbell.
 *
 *   D[WRITE record; READ entries of the fingerprint in Main; READ CurSegment; READ header]
 *     -> READ record
 *
 * It learns the newest record of the key before the first empty entry. When the CAS on that very
 * entry then succeeds, no other client has written to the segment in between: it would have taken
 * the entry. So a conditional write is atomic without any lock; of two insertions of a
 * key the one whose entry comes first wins, and the other begins again and finds it.
 */
export function* survey(table: SepHashTable, request: SepHashRequest): Operation<boolean> {
  const { batch } = request;
  for (let attempt = 1; ; attempt++) {
    if (!aimForSearch(table, request)) {
      yield* catchUp(table, request, attempt);
      continue;
    }
    batch.clear();
    if (request.block !== 0) {
      if (!request.blockWritten) request.reseal(versionAt(request.epoch, request.view.offset));
      table.records.post(request, batch);
    }
    yield postHeader(request, postSlots(table, request, postRange(request, batch)));
    if (!request.metaHolds()) {
      yield* table.retry(request, 'staleSegment', attempt);
      continue;
    }
    if (!filterIsClear(table, request)) {
      yield* table.retry(request, 'filterUnclear', attempt);
      continue;
    }
    request.emptySlot = firstEmpty(request, 0, table.geometry.slots);
    gather(request, request.emptySlot);
    const present = yield* readCandidates(request);
    // Others must see what this operation has seen, also if it ends here.
    if (request.recent > 0 && wantsBit(table, request)) yield* completeBit(table, request);
    return present;
  }
}
