import {
  type Condition,
  IF_PRESENT,
  IF_VERSION,
  INSERTED,
  type Outcome,
  REFUSED,
  REPLACED,
} from '../../../src/indexes/contract.ts';
import {
  chooseSlot,
  depthAt,
  gatherLive,
  repostBuckets,
  slotAddress,
} from '../../../src/indexes/race/buckets.ts';
import { fingerprintOf } from '../../../src/indexes/race/geometry.ts';
import { RACE, RaceIndex } from '../../../src/indexes/race/race.ts';
import type { RaceRequest } from '../../../src/indexes/race/request.ts';
import { locate } from '../../../src/indexes/race/search.ts';
import { emptySlot, slotHigh } from '../../../src/indexes/race/slot.ts';
import { split } from '../../../src/indexes/race/split.ts';
import type { RaceTable } from '../../../src/indexes/race/table.ts';
import { replaceSlot } from '../../../src/indexes/substrates/claims/change-slot.ts';
import { postCandidates } from '../../../src/indexes/substrates/claims/slot-candidates.ts';
import { pointerLow } from '../../../src/indexes/substrates/claims/slot-format.ts';
import { OTHER_SWAP_AT, SWAP_AT } from '../../../src/indexes/substrates/claims/slot-request.ts';
import { copyWord, type Operation, setWord, swapped } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

export const publishedInsertCanary: Canary = {
  name: 'published insert: live at once, duplicates removed afterwards',
  caughtBy: 'linearizability',
  kind: RACE,
  index: ({ table }: RaceIndex) => new PublishedInsert(table),
};

/** RACE Algorithm 1 as printed: for a while two copies of a key can be seen. */
export class PublishedInsert extends RaceIndex {
  /** Slots that were filled by insertions, and those that were a second one of their key. */
  readonly tally = { inserted: 0, duplicates: 0 };

  override *write(request: RaceRequest, condition: Condition, expected = 0): Operation<Outcome> {
    const { table } = this;
    request.fingerprint = fingerprintOf(request.hash.h1);
    const fresh = request.record.version;
    for (let attempt = 1; ; attempt++) {
      if (request.record.block === 0) yield* table.records.allocate(request);
      if (yield* locate(table, request)) {
        const refused = condition === IF_VERSION && request.found.version !== expected;
        if (refused || (condition !== IF_PRESENT && condition !== IF_VERSION && condition !== 0)) {
          return REFUSED;
        }
        if (yield* replaceSlot(this.slots, request, attempt)) return REPLACED;
      } else {
        if (condition === IF_PRESENT || condition === IF_VERSION) {
          request.found.at = -1;
          return REFUSED;
        }
        request.reseal(fresh);
        request.record.isPosted = false;
        if (yield* publishedInsert(table, request, attempt, this.tally)) return INSERTED;
      }
    }
  }
}

/** Second and third round trip; false when the slot was lost, also to an older copy of the key. */
export function* publishedInsert(
  table: RaceTable,
  request: RaceRequest,
  attempt: number,
  tally: PublishedInsert['tally'],
): Operation<boolean> {
  const at = chooseSlot(table, request);
  if (at === 0) {
    yield* split(table, request);
    return false;
  }
  const { words, batch } = request;
  const { block } = request.record;
  const slot = slotAddress(table, request, at);
  copyWord(words, at, SWAP_AT);
  const high = slotHigh(
    block,
    request.fingerprint,
    request.record.headUnits,
    depthAt(table, request, at),
  );
  setWord(words, SWAP_AT + 8, pointerLow(block), high);
  table.records.post(request, batch.clear());
  repostBuckets(table, request, batch.cas(slot, words, SWAP_AT));
  yield batch;
  if (!swapped(words, SWAP_AT)) {
    yield* table.retry(request, 'slotChanged', attempt);
    return false;
  }
  tally.inserted++;
  if (gatherLive(table, request) < 2) return true;
  return yield* keepSmallest(table, request, slot, tally);
}

/** Keeps the key's slot with the lowest address and empties its other slots. */
function* keepSmallest(
  table: RaceTable,
  request: RaceRequest,
  own: number,
  tally: PublishedInsert['tally'],
): Operation<boolean> {
  const { words, batch, candidateSlots } = request;
  const { at: candidateAt } = request.candidates;
  yield postCandidates(request, batch.clear());
  let smallest = own;
  const slots: number[] = [];
  for (let i = 0; i < request.candidates.count; i++) {
    if (!request.matches(candidateAt[i])) continue;
    slots.push(candidateSlots[i]);
    smallest = Math.min(smallest, slotAddress(table, request, candidateSlots[i]));
  }
  if (slots.length > 1) tally.duplicates++;
  for (const at of slots) {
    const address = slotAddress(table, request, at);
    if (address === smallest) continue;
    copyWord(words, at, OTHER_SWAP_AT);
    setWord(words, OTHER_SWAP_AT + 8, 0, emptySlot(depthAt(table, request, at)));
    yield batch.clear().cas(address, words, OTHER_SWAP_AT);
  }
  if (smallest === own) return true;
  request.record.forgetBlock();
  return false;
}
