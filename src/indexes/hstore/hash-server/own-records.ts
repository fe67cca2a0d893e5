import { EPOCHS_TO_RIPEN } from '../../../pool/clients/limbo.ts';
import type { Membership } from '../../../pool/clients/membership.ts';
import { FullForNow, type Reclamation } from '../../../pool/clients/reclamation.ts';
import type { Address, Operation } from '../../../verbs/index.ts';
import type { PairGeometry } from '../protocol/geometry.ts';
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
  readonly #geometry: PairGeometry;
  readonly #membership: Membership;
  readonly #reclamation: Reclamation;
  /** By place that no operation has: the epoch in which no turn had it any more. */
  readonly #freeSince = new Map<Address, number>();
  readonly #taken = new Set<Address>();

  constructor(geometry: PairGeometry, membership: Membership, reclamation: Reclamation) {
    this.#geometry = geometry;
    this.#membership = membership;
    this.#reclamation = reclamation;
  }

  /**
   * A place for the record of one turn. Raises FullForNow when each has to wait for epochs, which
   * pass when this client's operations have ended.
   */
  *take(): Operation<Address> {
    const named = blockOfTurn((yield* readState({ geometry: this.#geometry })).turn).address;
    const epoch = this.#reclamation.announced;
    for (const place of this.#geometry.ownRecords(this.#membership.id)) {
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
    this.#taken.delete(place);
    if (!isUsed) this.#freeSince.set(place, Number.NEGATIVE_INFINITY);
  }
}
