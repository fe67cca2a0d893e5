import { SLOT_UNITS_MAX } from '../../records/layout.ts';
import type { Address, Operation } from '../../verbs/index.ts';
import { SLOTS_AT } from './geometry.ts';
import type { ChimeRequest, LeafClient } from './leaf-client.ts';
import type { Visit } from './node-io.ts';
import { isLive, isVacant, lengthOf, recordOf } from './slot.ts';

/** Visits the blocks of all records of a leaf, committed or not. */
export function* visitLeafRecords(
  client: LeafClient,
  request: ChimeRequest,
  { image }: Visit,
  visit: (address: Address) => void,
): Operation<void> {
  const { leafBytes, shape } = client.geometry;
  for (let at = SLOTS_AT; at < leafBytes; at += 8) {
    const low = image.i32[at >> 2];
    const high = image.i32[(at >> 2) + 1];
    if (isVacant(low, high)) continue;
    const record = recordOf(low, high);
    visit(record);
    // What hangs on a claim is not looked at: one that was given up while it was frozen may name a
    // block that is used again.
    if (lengthOf(high) < SLOT_UNITS_MAX || !isLive(low, high)) continue;
    yield* client.records.adopt(request, record, SLOT_UNITS_MAX, shape.seed);
    const blocks = yield* client.records.foundBlocks(request, record);
    for (const { address } of blocks) visit(address);
  }
}
