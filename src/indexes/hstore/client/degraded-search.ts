import { HEADER_BYTES } from '../../../records/layout.ts';
import type { Operation } from '../../../verbs/index.ts';
import { readState, reportLost } from '../protocol/pair-state.ts';
import type { SlotWord } from '../protocol/slot.ts';
import { restoreTable } from '../recovery/rebuild-table.ts';
import { askForSlots } from './scan-call.ts';
import type { HStoreRequest, HStoreTable } from './table.ts';

/**
 * GET while the table is lost (section 3.2): the skiplist server tells the slot's word of the first
 * key from this one on, whose record the caller reads. Without such a server the table is restored
 * at once. 'nowhere' when there is no such key, 'table' when there is a table again. `met` is the
 * generation of the table in which a bucket was none.
 */
export function* searchDegraded(
  table: HStoreTable,
  request: HStoreRequest,
  met: number,
): Operation<SlotWord | 'nowhere' | 'table'> {
  const pair = table.pairOf(request);
  const { table: state, skiplist } = yield* readState(pair);
  const { isLost, generation } = state;
  // Waiting finds out whether that client is gone: to ask first costs a walk over all clients.
  const { client } = skiplist.holder;
  const isServed = client !== 0 && client !== pair.skiplistLease.own;
  const isMet = generation === met;
  if (isMet && !isLost) yield* reportLost(pair.geometry, met);
  if ((isMet || isLost) && isServed) {
    const { outgoing, keyBytes } = request;
    const key = outgoing.u8.slice(HEADER_BYTES, HEADER_BYTES + keyBytes);
    const part = { from: { key, inclusive: true }, reverse: false, count: 1 };
    table.retries.degraded++;
    const slots = yield* askForSlots(table, pair, request, part);
    if (slots) return slots[0] ?? 'nowhere';
  }
  yield* restoreTable(pair, met);
  return 'table';
}
