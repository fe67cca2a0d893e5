import { SLOT_UNITS_MAX } from '../../records/layout.ts';
import type { Address, Operation } from '../../verbs/index.ts';
import type { Index } from '../contract.ts';
import type { RecordIo } from '../substrates/record-io.ts';
import type { Request } from '../substrates/request.ts';
import type { Parts } from './parts.ts';

/**
 * Visits every block that is reachable from the beginning to the end: those of the index itself and
 * those of all records. More may be visited, never fewer.
 */
export function* eachReachable(
  index: Pick<Index, 'parts' | 'records' | 'newRequest'>,
  visit: (address: Address) => void,
): Operation<void> {
  const parts = index.parts(0, true);
  const request = index.newRequest();
  for (; !parts.order.done; parts.order.pass()) {
    yield* parts.read();
    parts.eachBlock?.(visit);
    yield* eachRecordBlock(parts, index.records, request, visit);
  }
  yield* parts.eachOtherBlock?.(visit) ?? [];
}

/** Visits all blocks of the records that slots name. */
function* eachRecordBlock(
  slots: Parts,
  records: RecordIo,
  request: Request,
  visit: (address: Address) => void,
): Operation<void> {
  const { unitsMax = SLOT_UNITS_MAX } = slots;
  const long: Address[] = [];
  slots.eachSlot((record, units, isClaim) => {
    visit(record);
    // A claim that was withdrawn while a mover had frozen it may name a block re-used since, and
    // what hangs on a dead client's claim is never read again.
    if (units >= unitsMax && !isClaim) long.push(record);
  });
  for (const record of long) {
    yield* records.adopt(request, record, unitsMax);
    for (const { address } of yield* records.foundBlocks(request, record)) visit(address);
  }
}
