import type { Address, Operation } from '../../verbs/index.ts';
import type { CheckSink, Index } from '../contract.ts';
import type { RecordIo } from '../substrates/record-io.ts';
import type { Request } from '../substrates/request.ts';

const PROGRESS_EVERY = 10_000;

/**
 * Reads a record as the request's found one, and reports its blocks as reachable. False for a
 * damaged one, which it reports.
 */
export function* checkRecord(
  records: RecordIo,
  request: Request,
  { record, units }: { record: Address; units: number },
  sink: Pick<CheckSink, 'problem' | 'reachable'>,
): Operation<boolean> {
  yield* records.adopt(request, record, units);
  try {
    yield* records.complete(request);
  } catch (error) {
    sink.problem(`record at ${record}: ${(error as Error).message}`);
    return false;
  }
  for (const block of yield* records.foundBlocks(request, record)) {
    sink.reachable(block.address, block.units);
  }
  return true;
}

/** Checks that a search for the key of the record, which the request has, finds that record. */
export function* checkSearch<R extends Request>(
  search: (request: R) => Operation<boolean>,
  request: R,
  record: Address,
  sink: Pick<CheckSink, 'problem'>,
): Operation<void> {
  if (!(yield* search(request))) sink.problem(`record at ${record}: its key is not found`);
  else if (request.foundAddress !== record) {
    sink.problem(`record at ${record}: its key has another slot`);
  }
}

/**
 * Checks that the records of all parts are intact and that searches find them; returns how many
 * there are.
 */
export function* checkParts(index: Index, sink: CheckSink): Operation<number> {
  const slots: { record: Address; units: number }[] = [];
  for (const parts = index.parts(); !parts.order.done; parts.order.pass()) {
    yield* parts.read();
    parts.eachSlot((record, units, isClaim) => {
      if (!isClaim) slots.push({ record, units });
    });
  }
  const newRequest = () => index.newRequest();
  const search = (request: Request) => index.search(request);
  yield* checkEach(sink, slots, newRequest, function* (slot, request) {
    const isIntact = yield* checkRecord(index.records, request, slot, sink);
    if (isIntact) yield* checkSearch(search, request, slot.record, sink);
  });
  return slots.length;
}

/**
 * Checks every item with a request of its own: one by one, or as many at once as the sink wants.
 */
export function* checkEach<T, R extends Request>(
  sink: CheckSink,
  items: readonly T[],
  newRequest: () => R,
  check: (item: T, request: R) => Operation<void>,
): Operation<void> {
  const idle: R[] = [];
  let checked = 0;
  const checkOne = function* (item: T): Operation<void> {
    const request = idle.pop() ?? newRequest();
    yield* check(item, request);
    idle.push(request);
    if (++checked % PROGRESS_EVERY === 0) sink.progress(checked);
  };
  if (sink.each) return yield* sink.each(items, checkOne);
  for (const item of items) yield* checkOne(item);
}
