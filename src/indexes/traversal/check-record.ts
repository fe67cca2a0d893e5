import type { Address, Operation } from '../../verbs/index.ts';
import type { CheckSink } from '../contract.ts';
import type { RecordIo } from '../substrates/record-io.ts';
import type { Request } from '../substrates/request.ts';

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
