import { SLOT_UNITS_MAX } from '../../records/layout.ts';
import type { Address, Operation } from '../../verbs/index.ts';
import type { HStoreTable } from './client/table.ts';
import type { Pair } from './pair.ts';
import { readState } from './protocol/pair-state.ts';
import { blockOfTurn, type RecordBlock } from './protocol/turn.ts';
import { waitingRequests, waitingScans } from './recovery/abandoned-requests.ts';

type Visit = (address: Address) => void;

/** The block that the last turn of a pair has its record in, if it has one of its own. */
export function* recordBlock(pair: Pair): Operation<RecordBlock | undefined> {
  const block = blockOfTurn((yield* readState(pair)).turn);
  return block.address === 0 || pair.geometry.isOwnRecord(block.address) ? undefined : block;
}

/** Visits the blocks of records that unanswered requests name, and the blocks of scans. */
export function* eachWaiting(table: HStoreTable, pair: Pair, visit: Visit): Operation<void> {
  for (const { block, units } of yield* waitingRequests(pair)) {
    yield* visitRecord(table, block, units, visit);
  }
  for (const block of yield* waitingScans(pair)) visit(block);
}

function* visitRecord(
  table: HStoreTable,
  record: Address,
  units: number,
  visit: Visit,
): Operation<void> {
  visit(record);
  if (units < SLOT_UNITS_MAX) return;
  const request = table.newRequest();
  yield* table.records.adopt(request, record, units);
  const blocks = yield* table.records.foundBlocks(request, record);
  for (const { address } of blocks) visit(address);
}
