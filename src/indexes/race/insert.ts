import type { Operation } from '../../verbs/index.ts';
import { claimSlot } from '../substrates/claims/claim-slot.ts';
import { chooseSlot } from './buckets.ts';
import type { RaceRequest } from './request.ts';
import type { RaceSlots } from './slots.ts';
import { split } from './split.ts';

/**
 * Lock-free insertion (RACE Algorithm 1) of a key that `locate` did not find. `locate` was the
 * first round trip; the claim of a vacant slot is the second, its commit the third (claim-slot.ts).
 *
 * The published protocol makes the slot visible at once and looks for duplicates afterwards, so for
 * a while two copies of a key can be seen. Here the slot is PENDING until its owner has looked.
 *
 * Returns false when the operation must begin again.
 */
export function* insert(
  slots: RaceSlots,
  request: RaceRequest,
  attempt: number,
): Operation<boolean> {
  const { table } = slots;
  const at = chooseSlot(table, request);
  if (at !== 0) return yield* claimSlot(slots, request, at, attempt);
  yield* table.retry(request, 'subtableFull', attempt);
  yield* split(table, request);
  return false;
}
