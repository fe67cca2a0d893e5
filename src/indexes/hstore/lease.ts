import { control, packFields, unpackFields } from '../../pool/control.ts';
import type { Membership } from '../../pool/membership.ts';
import type { Address, Operation } from '../../verbs/index.ts';

const ID_BITS = 12;
const FIELDS = [ID_BITS, 16] as const;

/** A client and its incarnation in one word; 0 is nobody. */
export function clientWord({ id, incarnation }: Membership): number {
  const fields = [id, incarnation];
  return Number(packFields(fields.map((value, i) => [value, FIELDS[i]] as const)));
}

/**
 * Whether the client of the word can issue verbs no more: it has left, or its thread is gone. Only
 * then may others act for it, so the pool's membership is the fence of every lease.
 */
export function* isGone(membership: Membership, word: number): Operation<boolean> {
  const [id, incarnation] = unpackFields(BigInt(word), FIELDS);
  const row = (yield* membership.rows(true))[id - 1];
  if (!row.live || row.incarnation !== incarnation) return true;
  return yield* membership.isGone(row);
}

/**
 * Who is the server of a role (the paper leaves this to a ZooKeeper): one word of the pool. It is
 * taken by CAS from nobody, or from a holder that is gone.
 */
export class Lease {
  readonly address: Address;
  readonly #membership: Membership;

  constructor(address: Address, membership: Membership) {
    this.address = address;
    this.#membership = membership;
  }

  get own(): number {
    return clientWord(this.#membership);
  }

  *holder(): Operation<number> {
    return Number(yield* control.load(this.address));
  }

  /** Takes the lease from `held`: 0, or a holder that is gone. */
  *take(held: number): Operation<boolean> {
    if (held !== 0 && !(yield* isGone(this.#membership, held))) return false;
    return yield* control.swap(this.address, BigInt(held), BigInt(this.own));
  }

  *release(): Operation<void> {
    yield* control.swap(this.address, BigInt(this.own), 0n);
  }
}
