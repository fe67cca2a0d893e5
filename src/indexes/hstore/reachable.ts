import { clientWord, GoneClients } from '../../pool/clients/client-word.ts';
import { SLOT_UNITS_MAX } from '../../records/layout.ts';
import { type Address, Batch, type Operation, readInteger, Scratch } from '../../verbs/index.ts';
import type { RecordBlock } from './commit.ts';
import { BODY_BYTES, type MailboxGeometry } from './geometry.ts';
import { decodeRequest } from './messages.ts';
import type { Pair } from './pair.ts';
import { decodeScan } from './scan-messages.ts';
import { recordOf, unitsOfSlot } from './slot.ts';
import { readTurn } from './state.ts';
import type { HStoreTable } from './table.ts';
import { recordOfTurn, unitsOfTurn } from './turn-word.ts';
import { HStoreWalk } from './walk.ts';

/**
 * Visits every block that a slot, a chain or a request that waits names. Requests first: one that
 * is answered meanwhile has its record in the table when that is walked.
 */
export function* eachReachable(
  table: HStoreTable,
  visit: (address: Address) => void,
): Operation<void> {
  for (const pair of table.pairs) {
    const turn = yield* turnRecord(pair);
    if (turn) visit(turn.address);
    yield* eachAbandoned(table, pair, visit);
    for (const block of yield* abandonedScans(pair)) visit(block);
  }
  const walk = new HStoreWalk(table);
  while (!walk.done) {
    const named: { record: Address; units: number }[] = [];
    yield* walk.nextSlots(
      ({ low, high }) => named.push({ record: recordOf(low, high), units: unitsOfSlot(high) }),
      visit,
    );
    for (const { record, units } of named) yield* visitRecord(table, record, units, visit);
  }
}

/** The block of the last turn's record. */
export function* turnRecord(pair: Pair): Operation<RecordBlock | undefined> {
  const turn = yield* readTurn(pair);
  const address = recordOfTurn(turn);
  return address === 0 ? undefined : { address, units: unitsOfTurn(turn) };
}

/** Visits the blocks of the records that abandoned requests name. */
export function* eachAbandoned(
  table: HStoreTable,
  pair: Pair,
  visit: (address: Address) => void,
): Operation<void> {
  for (const { block, units } of yield* abandonedRequests(pair)) {
    yield* visitRecord(table, block, units, visit);
  }
}

function* visitRecord(
  table: HStoreTable,
  record: Address,
  units: number,
  visit: (address: Address) => void,
): Operation<void> {
  visit(record);
  if (units < SLOT_UNITS_MAX) return;
  const request = table.newRequest();
  yield* table.records.adopt(request, record, units, table.shape.seed);
  const blocks = yield* table.records.foundBlocks(request, record);
  for (const { address } of blocks) visit(address);
}

/**
 * What the requests name that wait for the hash server and whose clients are gone; so do those that
 * this client has given up, between whose operations a sweep runs.
 */
export function* abandonedRequests(pair: Pair): Operation<{ block: Address; units: number }[]> {
  const bodies = yield* abandonedBodies(pair, pair.mailbox.geometry);
  return bodies.map((body) => decodeRequest(body, 0));
}

/** The blocks that a skiplist server would still read and write. */
export function* abandonedScans(pair: Pair): Operation<Address[]> {
  const bodies = yield* abandonedBodies(pair, pair.skiplistMailbox.geometry);
  return bodies.flatMap((body) => {
    const { key, answer } = decodeScan(body, 0);
    return [key, answer];
  });
}

function* abandonedBodies(pair: Pair, geometry: MailboxGeometry): Operation<Scratch[]> {
  const used = new Scratch(8);
  yield new Batch().read(geometry.rowsUsed, 8, used, 0);
  const rows = geometry.inTable(readInteger(used, 0));
  if (rows === 0) return [];
  const words = new Scratch(24 * rows);
  yield new Batch()
    .read(geometry.request(0), 8 * rows, words, 0)
    .read(geometry.answered(0), 8 * rows, words, 8 * rows)
    .read(geometry.owner(0), 8 * rows, words, 16 * rows);
  const found: Scratch[] = [];
  const gone = new GoneClients(pair.membership);
  for (let row = 0; row < rows; row++) {
    if (readInteger(words, 8 * row) === readInteger(words, 8 * (rows + row))) continue;
    const owner = readInteger(words, 8 * (2 * rows + row));
    const isOwn = owner === clientWord(pair.membership);
    if (!isOwn && !(yield* gone.has(owner))) continue;
    const body = new Scratch(BODY_BYTES);
    yield new Batch().read(geometry.body(row), BODY_BYTES, body, 0);
    found.push(body);
  }
  return found;
}
