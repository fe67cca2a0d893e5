import { control } from '../../pool/control.ts';
import type { Address, Operation } from '../../verbs/index.ts';
import type { CheckSink } from '../contract.ts';
import { PAIR } from './geometry.ts';
import { tryCompleting } from './holding.ts';
import { isMarked } from './marks.ts';
import { turnRecord } from './reachable.ts';
import { search } from './search.ts';
import { recordOf, signatureOf, unitsOfSlot } from './slot.ts';
import type { NamedSlot } from './slot-list.ts';
import type { HStoreRequest, HStoreTable } from './table.ts';
import { readTableState } from './table-state.ts';
import { HStoreWalk } from './walk.ts';

/**
 * Verifies every invariant of a quiet index: nothing is begun that is not committed; every record
 * is intact, in a chain of its key, under its signature and length, and what a search for its key
 * finds.
 */
export function* checkTable(table: HStoreTable, sink: CheckSink): Operation<number> {
  for (const pair of table.pairs) {
    // What a dead server has begun is part of the table: whoever is the next one completes it.
    yield* tryCompleting(pair);
    const begun = yield* control.load(pair.geometry.base + PAIR.begun);
    const committed = yield* control.load(pair.geometry.base + PAIR.committed);
    if (begun !== committed) sink.problem(`log: ${begun} begun, ${committed} committed`);
    const turn = yield* turnRecord(pair);
    if (turn) sink.reachable(turn.address, turn.units);
    const { isLost } = yield* readTableState(pair.geometry);
    if (isLost) sink.problem(`table of pair ${pair.geometry.number}: lost`);
  }
  const walk = new HStoreWalk(table);
  const request = table.newRequest();
  let records = 0;
  while (!walk.done) {
    const slots: NamedSlot[] = [];
    yield* walk.nextSlots(
      (slot) => slots.push(slot),
      (bucket: Address) => sink.reachable(bucket, 1),
    );
    for (const slot of slots) yield* checkSlot(table, request, slot, sink);
    records += slots.length;
    if (slots.length > 0) sink.progress(records);
  }
  if (walk.restored > 0) sink.problem('the hash table had lost buckets and was built anew');
  return records;
}

function* checkSlot(
  table: HStoreTable,
  request: HStoreRequest,
  { low, high }: NamedSlot,
  sink: CheckSink,
): Operation<void> {
  const record = recordOf(low, high);
  const where = `record at ${record}`;
  yield* table.records.adopt(request, record, unitsOfSlot(high), table.shape.seed);
  try {
    yield* table.records.complete(request);
  } catch (error) {
    return sink.problem(`${where}: ${(error as Error).message}`);
  }
  if (signatureOf(request.hash.h2) !== high >>> 24) sink.problem(`${where}: wrong signature`);
  if (!(yield* isMarked(table.allocator, { low, high }))) {
    sink.problem(`${where}: it is not marked as current`);
  }
  const blocks = yield* table.records.foundBlocks(request, record);
  for (const { address, units } of blocks) sink.reachable(address, units);
  if (!(yield* search(table, request))) sink.problem(`${where}: its key is not found`);
  else if (request.slotLow !== low || request.slotHigh !== high) {
    sink.problem(`${where}: its key has another record`);
  }
}
