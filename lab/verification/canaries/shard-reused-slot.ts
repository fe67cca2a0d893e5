import type { Condition, Outcome } from '../../../src/indexes/contract.ts';
import { firstEmpty } from '../../../src/indexes/shard/operations/buckets.ts';
import {
  insert,
  prepareEntry,
  type ShardSlots,
} from '../../../src/indexes/shard/operations/insert.ts';
import { locate } from '../../../src/indexes/shard/operations/search.ts';
import { SHARD, ShardIndex } from '../../../src/indexes/shard/shard.ts';
import type { ShardRequest } from '../../../src/indexes/shard/table/request.ts';
import { replaceSlot, vacateSlot } from '../../../src/indexes/substrates/claims/change-slot.ts';
import { writeSlot } from '../../../src/indexes/substrates/claims/slot-operations.ts';
import { SWAP_AT } from '../../../src/indexes/substrates/claims/slot-request.ts';
import { type Operation, swapped } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

/**
 * Ordered-CAS as printed (SHARD, section 3.2.1, Algorithm 1): a slot that was emptied is taken
 * again by one CAS, so two inserters of a key need not meet at the same one.
 */
export const shardReusedSlotCanary: Canary = {
  name: 'published Ordered-CAS: emptied slots are taken again at the same version',
  caughtBy: 'linearizability',
  scenario: { crashes: false },
  kind: SHARD,
  index: ({ partitions }: ShardIndex) => new ReusedSlot(partitions),
};

class ReusedSlot extends ShardIndex {
  override write(request: ShardRequest, condition: Condition, expected = 0): Operation<Outcome> {
    const { table } = this;
    request.begin();
    const protocol = {
      records: table.records,
      locate: (one: ShardRequest) => locate(table, one),
      insert: (one: ShardRequest, attempt: number) =>
        insertAnywhere(this.slotsOf(one), one, attempt),
      replace: (one: ShardRequest, attempt: number) => replaceSlot(this.slotsOf(one), one, attempt),
      vacate: (one: ShardRequest, attempt: number) => vacateSlot(this.slotsOf(one), one, attempt),
    };
    return writeSlot(protocol, request, condition, expected);
  }
}

function* insertAnywhere(
  slots: ShardSlots,
  request: ShardRequest,
  attempt: number,
): Operation<boolean> {
  const { table } = slots;
  const at = firstEmpty(table, request);
  if (at === 0) return yield* insert(slots, request, attempt);
  const { batch, words } = request;
  prepareEntry(slots, request, at);
  table.records.postFirst(request, batch.clear());
  yield batch.cas(table.slotAddress(request, at), words, SWAP_AT);
  if (swapped(words, SWAP_AT)) return true;
  yield* table.retry(request, 'slotChanged', attempt);
  return false;
}
