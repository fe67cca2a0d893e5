import type { Operation } from '../../verbs/index.ts';
import type { CheckSink } from '../contract.ts';
import { checkEach, checkRecord, checkSearch } from '../traversal/check-records.ts';
import { search } from './client/search.ts';
import type { HStoreRequest, HStoreTable } from './client/table.ts';
import type { Pair } from './pair.ts';
import { HStoreParts, recordBlock } from './parts.ts';
import { readState } from './protocol/pair-state.ts';
import { isMarked } from './protocol/record-heads.ts';
import { type NamedSlot, recordOf, signatureOf, unitsOfSlot } from './protocol/slot.ts';
import { CHAINED_BUCKET_UNITS } from './protocol/turn.ts';

/** Records that are checked together where that is faster. */
const GROUP = 1024;

/**
 * Verifies every invariant of a quiet index. Everything begun is committed. Every record is intact,
 * in a chain of its key, under its signature and length, and a search for its key finds it.
 */
export function* checkTable(table: HStoreTable, sink: CheckSink): Operation<number> {
  for (const pair of table.pairs) yield* checkPair(pair, sink);
  const parts = new HStoreParts(table);
  const newRequest = () => table.newRequest();
  const check = (slot: NamedSlot, request: HStoreRequest) => checkSlot(table, request, slot, sink);
  let records = 0;
  while (!parts.order.done) {
    const group: NamedSlot[] = [];
    for (; !parts.order.done && group.length < GROUP; parts.order.pass()) {
      yield* parts.read();
      group.push(...parts.slots);
      parts.eachBlock((bucket) => sink.reachable(bucket, CHAINED_BUCKET_UNITS));
    }
    yield* checkEach(sink, group, newRequest, check);
    records += group.length;
    if (group.length > 0) sink.progress(records);
  }
  if (parts.restored > 0) sink.problem('the hash table had lost buckets and was built anew');
  return records;
}

function* checkPair(pair: Pair, sink: CheckSink): Operation<void> {
  // A turn that a dead server has begun is part of the table: the next server completes it.
  yield* pair.hashServer.complete();
  const { begun, committed, table } = yield* readState(pair);
  if (begun !== committed) sink.problem(`log: ${begun} begun, ${committed} committed`);
  const record = yield* recordBlock(pair);
  if (record) sink.reachable(record.address, record.units);
  if (table.isLost) sink.problem(`table of pair ${pair.geometry.number}: lost`);
}

function* checkSlot(
  table: HStoreTable,
  request: HStoreRequest,
  slot: NamedSlot,
  sink: CheckSink,
): Operation<void> {
  const { high } = slot;
  const record = recordOf(slot);
  const { records, pool } = table;
  const units = unitsOfSlot(high);
  if (!(yield* checkRecord(records, request, { record, units }, sink))) return;
  const where = `record at ${record}`;
  if (signatureOf(request.hash.h2) !== high >>> 24) sink.problem(`${where}: wrong signature`);
  const isCurrent = yield* isMarked(pool.allocator, slot);
  if (!isCurrent) sink.problem(`${where}: it is not marked as current`);
  yield* checkSearch((one: HStoreRequest) => search(table, one), request, record, sink);
}
