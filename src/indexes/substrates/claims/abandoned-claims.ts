import {
  type Address,
  Batch,
  CAS_BYTES,
  type Operation,
  Scratch,
  setWord,
  swapped,
} from '../../../verbs/index.ts';

const SWAPS_A_DOORBELL = 64;

/** Hands out each slot that is claimed and not committed, with the halves of its word. */
export type EachClaim = (
  visit: (slot: Address, low: number, high: number) => void,
) => Operation<void>;

interface Claim {
  slot: Address;
  low: number;
  high: number;
}

/**
 * Withdraws the claims (rival-claims.ts) of clients that died between claim and commit. Nobody
 * meets such a claim but an inserter of the same key, so without this it stays for ever, and the
 * record that it names pins a chunk to its block size.
 *
 *   READ all slots -> grace -> READ all slots -> CAS what is still the same, pending -> empty
 *
 * A claim is of one operation, and no operation outlasts the grace period unless its client stands
 * still. Anyone may withdraw anyone's claim, so no interleaving loses more than an attempt:
 * - The owner lives and is slow: its commit fails, and it begins again with another record. It
 *   retires the record of this attempt itself, and a sweep waits for its epoch.
 * - The owner commits, or another client withdraws, before the CAS: the CAS fails.
 * - Another claim with the same word came into the slot: it is as good as a slow one.
 * - The bucket is moved or frozen: its words get another stamp, the CAS fails; movers drop claims.
 * - The client that withdraws dies after any CAS: the others find fewer claims. Records of claims
 *   that are gone are unreachable, and a sweep finds them.
 *
 * `emptied` says what the high half of a withdrawn slot becomes; its low half becomes 0. Returns
 * how many claims were withdrawn.
 */
export function* withdrawAbandoned(
  eachClaim: EachClaim,
  emptied: (high: number) => number,
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
  return yield* withdrawAll(abandoned, emptied);
}

function* withdrawAll(
  claims: readonly Claim[],
  emptied: (high: number) => number,
): Operation<number> {
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
