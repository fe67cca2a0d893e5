import { HEADER_BYTES } from '../../records/layout.ts';
import type { Operation } from '../../verbs/index.ts';
import { hasOtherSkiplistServer, restoreTable } from './rebuild.ts';
import { askForSlots } from './scan-call.ts';
import type { HStoreRequest, HStoreTable } from './table.ts';
import { readTableState, sayLost } from './table-state.ts';

/**
 * GET while the table is lost (section 3.2): the skiplist server tells the slot's word of the first
 * key from this one on, whose record the caller reads. Without such a server the table is restored
 * at once. 'nowhere' when there is no such key, 'table' when there is a table again. `met` is the
 * generation of the table in which a bucket was none.
 */
export function* searchElsewhere(
  table: HStoreTable,
  request: HStoreRequest,
  met: number,
): Operation<{ low: number; high: number } | 'nowhere' | 'table'> {
  const pair = table.pairOf(request);
  const { isLost, generation } = yield* readTableState(pair.geometry);
  const isMet = generation === met;
  if (isMet && !isLost) yield* sayLost(pair.geometry, met);
  if ((isMet || isLost) && (yield* hasOtherSkiplistServer(pair))) {
    const from = { key: keyOf(request), inclusive: true };
    const part = { from, reverse: false, count: 1 };
    table.retries.degraded++;
    const slots = yield* askForSlots(table, pair, request, part);
    if (slots) return slots[0] ?? 'nowhere';
  }
  yield* restoreTable(pair, met);
  return 'table';
}

function keyOf({ outgoing, keyBytes }: HStoreRequest): Uint8Array {
  return outgoing.u8.slice(HEADER_BYTES, HEADER_BYTES + keyBytes);
}
