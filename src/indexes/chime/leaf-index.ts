import { type Address, type Batch, highHalf, lowHalf, type Operation } from '../../verbs/index.ts';
import type {
  CheckSink,
  Condition,
  Index,
  IndexManifest,
  IndexShape,
  IndexWalk,
  Outcome,
} from '../contract.ts';
import {
  modifySlot,
  removeSlot,
  type SlotProtocol,
  writeSlot,
} from '../substrates/claims/slot-operations.ts';
import { ClientIndex } from '../substrates/client-index.ts';
import { LockTable } from '../substrates/delegation.ts';
import type { PlannedWrite } from '../substrates/planned-write.ts';
import { writeTogether } from '../substrates/write-combining.ts';
import { insert } from './insert.ts';
import type { ChimeRequest, LeafClient } from './leaf-client.ts';
import { place } from './neighbourhood.ts';
import { locate, search, searchMany } from './search.ts';
import { recordOf } from './slot.ts';
import { replace, vacate } from './update.ts';

/**
 * What the index contract asks for, over a client's handle of a tree or a hash table of hopscotch
 * leaves: operations on one key are the same for both.
 */
export abstract class LeafIndex<C extends LeafClient>
  extends ClientIndex<ChimeRequest, C>
  implements Index
{
  abstract readonly manifest: IndexManifest;
  readonly #protocol: SlotProtocol<ChimeRequest>;
  readonly #locks = new LockTable<ChimeRequest>();

  constructor(client: C) {
    super(client, client.geometry.shape);
    this.#protocol = {
      records: client.records,
      locate: (request) => locate(client, request),
      insert: (request, attempt) => insert(client, request, attempt),
      replace: (request, attempt) => replace(client, request, attempt),
      vacate: (request, attempt) => vacate(client, request, attempt),
    };
  }

  abstract get resizes(): Readonly<Record<string, number>>;
  abstract get tableUnits(): readonly number[];
  abstract shape(): Operation<IndexShape>;
  abstract walk(cursor?: number): IndexWalk;
  abstract check(sink: CheckSink): Operation<number>;
  abstract eachReachable(visit: (address: Address) => void): Operation<void>;

  foundAddress({ words, slotAt }: ChimeRequest): Address {
    return recordOf(lowHalf(words, slotAt), highHalf(words, slotAt));
  }

  search(request: ChimeRequest): Operation<boolean> {
    const { client } = this;
    client.begin();
    if (!client.techniques.delegation) return search(client, request);
    return this.#locks.search(request, (one) => search(client, one));
  }

  searchMany(
    requests: readonly ChimeRequest[],
    count: number,
    batch: Batch,
    found: boolean[],
  ): Operation<void> {
    this.client.begin();
    return searchMany(this.client, requests, count, batch, found);
  }

  *write(request: ChimeRequest, condition: Condition, expected = 0): Operation<Outcome> {
    this.#begin(request);
    if (!this.client.techniques.delegation) {
      return yield* writeSlot(this.#protocol, request, condition, expected);
    }
    const write: PlannedWrite<ChimeRequest> = { request, condition, expected };
    return yield* this.#locks.write(write, (group) => this.#writeTogether(group));
  }

  #writeTogether(group: readonly PlannedWrite<ChimeRequest>[]): Operation<void> {
    return writeTogether(this.#protocol, group, (request, attempt) =>
      this.client.retry(request, 'otherCarrier', attempt),
    );
  }

  *remove(request: ChimeRequest, expected?: number): Operation<boolean> {
    this.#begin(request);
    return yield* this.#inTurn(request, () => removeSlot(this.#protocol, request, expected));
  }

  *modify(request: ChimeRequest, compute: (present: boolean) => void): Operation<Outcome> {
    this.#begin(request);
    return yield* this.#inTurn(request, () => modifySlot(this.#protocol, request, compute));
  }

  #inTurn<T>(request: ChimeRequest, change: () => Operation<T>): Operation<T> {
    return this.client.techniques.delegation ? this.#locks.inTurn(request, change) : change();
  }

  #begin(request: ChimeRequest): void {
    this.client.begin();
    place(this.client, request);
  }
}
