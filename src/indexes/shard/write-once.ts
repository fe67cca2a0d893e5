import { type Fabric, swapped } from '../../verbs/index.ts';
import {
  type Condition,
  IF_PRESENT,
  IF_VERSION,
  INSERTED,
  type Outcome,
  REFUSED,
  REPLACED,
} from '../contract.ts';
import { linked, refuses } from '../slot-operations.ts';
import {
  beginGathering,
  firstFresh,
  gather,
  hasOverflowed,
  matchCandidate,
  postCandidates,
  postLevel1,
} from './buckets.ts';
import { prepareEntry } from './insert.ts';
import { isReportDue } from './sync.ts';
import { type ShardRequest, type ShardTable, SWAP_AT } from './table.ts';
import { postReplacement, retireReplaced } from './update.ts';

/**
 * The first attempt of a write on a fabric that executes at once: the same verbs and the same tests
 * as those of `locate`, `replace` and `insert`, without what generators cost. The request has a
 * block. Undefined when the write takes more than that: what is below level 1, buckets that are not
 * settled, chained records, reports; it then begins again with the record that it has written.
 */
export function writeOnce(
  table: ShardTable,
  request: ShardRequest,
  condition: Condition,
  expected: number,
  fabric: Fabric,
): Outcome | undefined {
  const found = locateOnce(table, request, fabric);
  if (found === undefined) return undefined;
  if (found) {
    if (refuses(condition, expected, request.foundVersion)) return REFUSED;
    return replaceOnce(table, request, fabric) ? REPLACED : undefined;
  }
  if (condition === IF_PRESENT || condition === IF_VERSION) {
    request.foundAt = -1;
    return REFUSED;
  }
  return insertOnce(table, request, fabric) ? linked(request, INSERTED) : undefined;
}

/** D[READ level 1; WRITE record] -> READ records */
function locateOnce(table: ShardTable, request: ShardRequest, fabric: Fabric): boolean | undefined {
  const { batch } = request;
  postLevel1(table, request, batch.clear());
  table.records.post(request, batch);
  fabric.execute(batch);
  beginGathering(request);
  gather(table, request, 0);
  if (!request.isSettled) return undefined;
  if (request.candidateCount > 0) {
    fabric.execute(postCandidates(request, batch.clear()));
    if (request.longCandidates) return undefined;
    if (matchCandidate(request)) return request.foundChained ? undefined : true;
  }
  return hasOverflowed(request) ? undefined : false;
}

/** D[WRITE header; CAS] */
function replaceOnce(table: ShardTable, request: ShardRequest, fabric: Fabric): boolean {
  fabric.execute(postReplacement(table, request));
  if (!swapped(request.words, SWAP_AT)) {
    table.retries.slotChanged++;
    return false;
  }
  retireReplaced(table, request);
  return true;
}

/** CAS: the Ordered-CAS. */
function insertOnce(table: ShardTable, request: ShardRequest, fabric: Fabric): boolean {
  if (table.geometry.shape.ordered !== 1 || isReportDue(table, 1)) return false;
  const at = firstFresh(table, request);
  if (at === 0) return false;
  const { batch, words } = request;
  prepareEntry(table, request, at, 0);
  fabric.execute(batch.clear().cas(table.slotAddress(request, at), words, SWAP_AT));
  if (!swapped(words, SWAP_AT)) {
    table.retries.slotChanged++;
    return false;
  }
  request.slotAt = at;
  table.unreported++;
  table.writes++;
  return true;
}
