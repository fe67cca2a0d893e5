import {
  copyWord,
  highHalf,
  lowHalf,
  type Operation,
  type Scratch,
  setWord,
  swapped,
} from '../../verbs/index.ts';
import { gatherNodes, readCandidates } from './buckets.ts';
import { LEVEL_OF_PLACE, PLACES } from './geometry.ts';
import {
  isEmpty,
  PENDING,
  POINTER_HIGH,
  pointerHigh,
  pointerLow,
  SETTLED_MASK,
  usedHigh,
} from './slot.ts';
import { OTHER_SWAP_AT, type ShardRequest, type ShardTable } from './table.ts';

/**
 * Collects the slots from place `first` on that have the key's fingerprint, committed or pending,
 * without the one that points at the request's own record.
 */
export function gatherRivals(table: ShardTable, request: ShardRequest, first: number): void {
  const { at, candidates, fingerprint, words, block } = request;
  request.candidateCount = 0;
  request.longCandidates = false;
  for (let place = first; place < PLACES; place++) {
    const end = at[place] + 8 * table.geometry.entries[LEVEL_OF_PLACE[place]];
    for (let slot = at[place]; slot < end; slot += 8) {
      const high = highHalf(words, slot);
      if (high >>> 24 !== fingerprint || isEmpty(lowHalf(words, slot), high)) continue;
      candidates[request.candidateCount++] = slot;
    }
  }
  gatherNodes(request, true);
  if (block !== 0) dropOwn(request);
}

function dropOwn(request: ShardRequest): void {
  const { candidates, words, block } = request;
  const low = pointerLow(block);
  const high = pointerHigh(block);
  let kept = 0;
  for (let i = 0; i < request.candidateCount; i++) {
    const slot = candidates[i];
    const own = lowHalf(words, slot) === low && (highHalf(words, slot) & POINTER_HIGH) === high;
    if (!own) candidates[kept++] = slot;
  }
  request.candidateCount = kept;
}

/** Withdraws claims of the key in levels 2 and 3; returns whether there were any. */
export function* evictClaims(table: ShardTable, request: ShardRequest): Operation<boolean> {
  const { candidates, candidateAt, words } = request;
  gatherRivals(table, request, 1);
  let pending = 0;
  for (let i = 0; i < request.candidateCount; i++) {
    if ((highHalf(words, candidates[i]) & PENDING) !== 0) candidates[pending++] = candidates[i];
  }
  request.candidateCount = pending;
  yield* readCandidates(request);
  let evicted = false;
  for (let i = 0; i < pending; i++) {
    if (!request.matches(candidateAt[i])) continue;
    evicted = true;
    yield* evict(table, request, candidates[i]);
  }
  return evicted;
}

/**
 * Withdraws another client's pending slot. False when it was committed or frozen meanwhile.
 *
 * When its owner, or somebody else, withdrew it just before, it is gone as well: were that a
 * conflict, inserters in step could withdraw for each other for ever. Exactly the empty word that a
 * withdrawal leaves will do: one with a later stamp may be what a mover left of a slot that was
 * committed and moved. So will another claim of the same stamp: it came after this client's own,
 * which its owner will see and give way to.
 */
export function* evict(table: ShardTable, request: ShardRequest, at: number): Operation<boolean> {
  const { batch, words } = request;
  const emptied = usedHigh(highHalf(words, at));
  copyWord(words, at, OTHER_SWAP_AT);
  setWord(words, OTHER_SWAP_AT + 8, 0, emptied);
  yield batch.clear().cas(table.slotAddress(request, at), words, OTHER_SWAP_AT);
  if (swapped(words, OTHER_SWAP_AT)) return true;
  const low = lowHalf(words, OTHER_SWAP_AT + 16);
  const high = highHalf(words, OTHER_SWAP_AT + 16);
  if ((high & SETTLED_MASK) !== (emptied & SETTLED_MASK)) return false;
  return isEmpty(low, high) || isOtherClaim(words, at, low, high);
}

/** Not the same claim, in which only the overflow bit was set meanwhile. */
function isOtherClaim(words: Scratch, at: number, low: number, high: number): boolean {
  if ((high & PENDING) === 0) return false;
  return low !== lowHalf(words, at) || ((high ^ highHalf(words, at)) & POINTER_HIGH) !== 0;
}
