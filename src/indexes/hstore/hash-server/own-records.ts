import { invariant } from '../../../errors.ts';
import { EPOCHS_TO_RIPEN } from '../../../pool/clients/limbo.ts';
import { FullForNow } from '../../../pool/clients/reclamation.ts';
import type { Address, Operation } from '../../../verbs/index.ts';
import type { PairAccess } from '../protocol/pair-access.ts';
import { readState } from '../protocol/pair-state.ts';
import { blockOfTurn } from '../protocol/turn.ts';

/**
 * Places for records of turns in the memory of the pair: each client has a few. So a client that
 * owns no block, and finds the pool full, can still delete.
 *
 * Only the client of the row writes there. A place is used again when no client can hold a turn
 * word that names it: three epochs after this client has seen that the last turn has another
 * record, as a block that is retired then. What a client left there that had the row before counts
 * as seen when this client looks first: it is gone, and starts no further turn.
 */
export class OwnRecords {
  readonly #pair: PairAccess;
  /** By place that no operation has: the epoch in which no turn had it any more. */
  readonly #freeSince = new Map<Address, number>();
  readonly #taken = new Set<Address>();

  constructor(pair: PairAccess) {
    this.#pair = pair;
  }

  /**
   * A place for the record of one turn. Raises FullForNow when each has to wait for epochs, which
   * pass when this client's operations have ended.
   */
  *take(): Operation<Address> {
    const { geometry, pool } = this.#pair;
    const named = blockOfTurn((yield* readState(this.#pair)).turn).address;
    const epoch = pool.reclamation.announced;
    for (const place of geometry.ownRecords(pool.membership.id)) {
      if (place === named || this.#taken.has(place)) continue;
      const since = this.#freeSince.get(place);
      if (since === undefined) this.#freeSince.set(place, epoch);
      else if (since + EPOCHS_TO_RIPEN <= epoch) {
        this.#freeSince.delete(place);
        this.#taken.add(place);
        return place;
      }
    }
    throw new FullForNow(epoch + EPOCHS_TO_RIPEN);
  }

  /** The operation has ended; `isUsed` tells whether a turn may have the place. */
  give(place: Address, isUsed: boolean): void {
    const isFree = this.#freeSince.has(place);
    invariant(!isFree, 'a place for the record of a turn is given back twice');
    this.#taken.delete(place);
    if (!isUsed) this.#freeSince.set(place, Number.NEGATIVE_INFINITY);
  }
}
