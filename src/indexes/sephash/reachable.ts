import type { Address, Operation } from '../../verbs/index.ts';
import { eachSegment } from './each-segment.ts';
import type { SepHashRequest } from './request.ts';
import { ENTRY_UNITS_MAX, recordOf, unitsOfEntry } from './segments/entry.ts';
import type { SepHashTable } from './table.ts';

/**
 * Visits every block that a key or the directory reaches throughout, and records that a merge has
 * dropped and the next one will retire.
 */
export function* eachReachable(
  table: SepHashTable,
  visit: (address: Address) => void,
): Operation<void> {
  const request = table.newRequest();
  yield* eachSegment(table, function* (snapshot) {
    visit(snapshot.header);
    visit(snapshot.main.slots);
    visit(snapshot.mainBlock);
    yield* visitRecords(table, request, snapshot.current, visit);
    yield* visitRecords(table, request, yield* snapshot.entries(), visit);
  });
}

function* visitRecords(
  table: SepHashTable,
  request: SepHashRequest,
  entries: Int32Array,
  visit: (address: Address) => void,
): Operation<void> {
  for (let at = 0; at < entries.length; at += 2) {
    const record = recordOf(entries[at], entries[at + 1]);
    visit(record);
    if (unitsOfEntry(entries[at + 1]) < ENTRY_UNITS_MAX) continue;
    yield* table.records.adopt(request, record, ENTRY_UNITS_MAX);
    const blocks = yield* table.records.foundBlocks(request, record);
    for (const { address } of blocks) visit(address);
  }
}
