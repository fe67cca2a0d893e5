import { invariant } from '../../../errors.ts';
import { INSERTED, REFUSED, REPLACED } from '../../contract.ts';
import { isSpared, refuses } from '../claims/slot-operations.ts';
import type { LeafClient } from './leaf-client.ts';
import { type LeafRequest, MODIFIES, REMOVES } from './leaf-request.ts';

/** What to do with a key's item: keep it, replace or insert it, remove it. */
export type Decision = typeof KEEP | typeof PUT | typeof REMOVE | typeof OTHERWISE;
export const KEEP = 0;
export const PUT = 1;
export const REMOVE = 2;
/** A modification needs a block for a record, which must be written before the lock is taken. */
export const OTHERWISE = 3;

/** Decides, under the lock, what to do with the key's item, and sets the request's outcome. */
export function decide(client: LeafClient, request: LeafRequest, isThere: boolean): Decision {
  const { change, condition, expected = 0, found } = request;
  const present = isThere && !client.records.isExpired(request);
  request.outcome = REFUSED;
  request.displaced = false;
  if (change === REMOVES) {
    if (!isThere || isSpared(request, request.expected)) return KEEP;
    request.outcome = present ? REPLACED : INSERTED;
    request.displaced = true;
    return REMOVE;
  }
  if (change === MODIFIES) {
    if (isThere && !found.isInline) return OTHERWISE;
    request.compute(present);
    request.inline = client.geometry.fitsInline(request.keyBytes, request.record.valueBytes);
    if (!request.inline) return OTHERWISE;
  } else if (refuses(condition, expected, present, found.version)) {
    if (!present) found.at = -1;
    return KEEP;
  }
  invariant(request.inline || request.record.block > 0, 'an item has no record');
  request.displaced = isThere;
  request.outcome = present ? REPLACED : INSERTED;
  return PUT;
}
