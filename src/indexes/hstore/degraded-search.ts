import { HEADER_BYTES } from '../../records/layout.ts';
import { Batch, type Operation, Scratch } from '../../verbs/index.ts';
import { PAIR } from './geometry.ts';
import type { Pair } from './pair.ts';
import { restoreTable } from './rebuild.ts';
import { askForSlots } from './scan-call.ts';
import type { HStoreRequest, HStoreTable } from './table.ts';
import { sayLost, type TableState, tableStateIn } from './table-state.ts';

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
  const { isLost, generation, isServed } = yield* look(pair);
  const isMet = generation === met;
  if (isMet && !isLost) yield* sayLost(pair.geometry, met);
  if ((isMet || isLost) && isServed) {
    const from = { key: keyOf(request), inclusive: true };
    const part = { from, reverse: false, count: 1 };
    table.retries.degraded++;
    const slots = yield* askForSlots(table, pair, request, part);
    if (slots) return slots[0] ?? 'nowhere';
  }
  yield* restoreTable(pair, met);
  return 'table';
}

/**
 * Which table there is, and whether another client has the lease of the skiplist server. That it is
 * gone who waits for its answer finds out: to ask before each GET takes a walk over all clients.
 */
function* look({ geometry, skiplistLease }: Pair): Operation<TableState & { isServed: boolean }> {
  const words = new Scratch(16);
  yield new Batch()
    .read(geometry.base + PAIR.table, 8, words, 0)
    .read(geometry.base + PAIR.skiplistLease, 8, words, 8);
  const { client } = skiplistLease.holderIn(words, 8);
  return { ...tableStateIn(words, 0), isServed: client !== 0 && client !== skiplistLease.own };
}

function keyOf({ outgoing, keyBytes }: HStoreRequest): Uint8Array {
  return outgoing.u8.slice(HEADER_BYTES, HEADER_BYTES + keyBytes);
}
