import {
  type Address,
  Batch,
  CAS_BYTES,
  type Operation,
  Scratch,
  setWord,
  swapped,
} from '../../../verbs/index.ts';
import { isVacantIn, type SlotFormat } from './slot-format.ts';

const SWAPS_A_DOORBELL = 64;

/** Visits each slot that is claimed and not committed, with the halves of its word. */
export type EachClaim = (
  visit: (slot: Address, low: number, high: number) => void,
) => Operation<void>;

/**
 * Visits the claims in one bucket, whose slots begin at `at` of the words and at `address` in the
 * pool. Skips frozen claims, which their mover drops.
 */
export function visitClaims(
  format: SlotFormat,
  { i32 }: Scratch,
  at: number,
  slots: number,
  address: Address,
  visit: Parameters<EachClaim>[0],
): void {
  const { pending, frozen } = format;
  for (let slot = 0; slot < 8 * slots; slot += 8) {
    const [low, high] = [i32[(at + slot) >> 2], i32[((at + slot) >> 2) + 1]];
    const isClaim = (high & (pending | frozen)) === pending && !isVacantIn(format, low, high);
    if (isClaim) visit(address + slot, low, high);
  }
}

interface Claim {
  slot: Address;
  low: number;
  high: number;
}

/**
 * Withdraws the claims (rival-claims.ts) of clients that died between claim and commit. Only an
 * inserter of the same key ever meets such a claim. Without one the claim would stay, and its
 * record would pin a chunk to its block size.
 *
 *   READ all slots -> grace -> READ all slots -> CAS unchanged claims, pending -> empty
 *
 * A claim belongs to one operation, and no operation outlasts the grace period unless its client
 * stalls. Any client may withdraw any claim, so every interleaving loses at most one attempt:
 * - The owner is alive but slow: its commit fails, and it starts over with another record. It
 *   retires this attempt's record itself, and a sweep waits for its epoch.
 * - The owner commits, or another client withdraws the claim, before the CAS: the CAS fails.
 * - Another claim with the same word came into the slot: its owner counts as slow.
 * - The bucket is moved or frozen: its words get another stamp, the CAS fails; movers drop claims.
 * - The withdrawing client dies after any CAS: the next one finds fewer claims. A sweep frees the
 *   records of withdrawn claims, which are unreachable.
 *
 * Returns how many claims were withdrawn.
 */
export function* withdrawAbandoned(
  eachClaim: EachClaim,
  format: SlotFormat,
  grace: () => Operation<boolean>,
): Operation<number> {
  const before = new Map<Address, Claim>();
  yield* eachClaim((slot, low, high) => void before.set(slot, { slot, low, high }));
  if (before.size === 0) return 0;
  yield* grace();
  const abandoned: Claim[] = [];
  yield* eachClaim((slot, low, high) => {
    const known = before.get(slot);
    if (known?.low === low && known.high === high) abandoned.push(known);
  });
  return yield* withdrawAll(abandoned, format);
}

function* withdrawAll(claims: readonly Claim[], { emptied }: SlotFormat): Operation<number> {
  const swaps = new Scratch(CAS_BYTES * SWAPS_A_DOORBELL);
  const batch = new Batch();
  let withdrawn = 0;
  for (let first = 0; first < claims.length; first += SWAPS_A_DOORBELL) {
    const some = claims.slice(first, first + SWAPS_A_DOORBELL);
    batch.clear();
    some.forEach(({ slot, low, high }, i) => {
      setWord(swaps, CAS_BYTES * i, low, high);
      setWord(swaps, CAS_BYTES * i + 8, 0, emptied(high));
      batch.cas(slot, swaps, CAS_BYTES * i);
    });
    yield batch;
    withdrawn += some.filter((_, i) => swapped(swaps, CAS_BYTES * i)).length;
  }
  return withdrawn;
}
