import { HEADER_BYTES as RECORD_HEADER_BYTES } from '../../../records/layout.ts';
import { type Batch, highHalf, lowHalf, type Operation } from '../../../verbs/index.ts';
import {
  type CheckSink,
  type ClientSettings,
  type Condition,
  type Counters,
  type Index,
  type IndexManifest,
  type IndexShape,
  type Outcome,
  REPLACED,
} from '../../contract.ts';
import type { IndexPicture } from '../../picture.ts';
import type { Parts } from '../../traversal/parts.ts';
import { modifySlot, type SlotProtocol } from '../claims/slot-operations.ts';
import { ClientIndex } from '../client-index.ts';
import type { Proof } from '../proof.ts';
import type { UsesInTable } from '../record-io.ts';
import { SUM_HIGH_MASK } from './entry.ts';
import { Hotspots } from './hotspots.ts';
import { ITEM_AT, SUM_AT } from './layout.ts';
import type { LeafClient } from './leaf-client.ts';
import { changeItem, leafProtocol, touchInline } from './leaf-operations.ts';
import { IMAGE_AT, type LeafRequest, MODIFIES, REMOVES, WRITES } from './leaf-request.ts';
import { type Chooses, removeItems } from './remove-items.ts';
import { sampleLeaves, sampleNeighbourhood } from './sample-leaves.ts';
import { searchLeaf, searchLeaves } from './search-leaf.ts';

/** The index contract's operations on one key, over a client's handle. */
export abstract class LeafIndex<C extends LeafClient>
  extends ClientIndex<LeafRequest, C>
  implements Index, UsesInTable
{
  abstract readonly manifest: IndexManifest;
  readonly #protocol: SlotProtocol<LeafRequest>;
  /** Requests into which samples read leaves. */
  readonly #sampled: LeafRequest[][] = [];

  constructor(client: C, tableUnits = () => [client.geometry.leafUnits]) {
    super(client, tableUnits);
    this.#protocol = leafProtocol(client);
    client.records.inTable = this;
  }

  abstract get counters(): Counters;
  abstract shape(): Operation<IndexShape>;
  abstract picture(partsMax: number): Operation<IndexPicture>;
  abstract parts(cursor?: number): Parts<LeafRequest>;
  abstract check(sink: CheckSink): Operation<number>;

  configure({ hotspots, readsAtOnce, lockTimeoutMs }: ClientSettings): void {
    const { client } = this;
    if (hotspots !== undefined) client.hotspots = new Hotspots(hotspots);
    client.missProof.isFree = readsAtOnce ?? client.missProof.isFree;
    client.lockTimeoutMs = lockTimeoutMs ?? client.lockTimeoutMs;
  }

  *touch(request: LeafRequest): Operation<void> {
    yield* this.inheritUses(request);
    if (this.records.slides(request)) yield* touchInline(this.client, request);
  }

  /**
   * One WRITE without the lock, for which no operation waits. If the item has moved and another one
   * is there, that one counts as used, which only affects the choice of what to evict.
   */
  *inheritUses(request: LeafRequest): Operation<void> {
    const { accessAt } = this.client.geometry;
    if (accessAt === 0) return;
    const word = request.leaf + request.entry - IMAGE_AT + accessAt;
    yield* this.records.noteUse(request, word);
  }

  *sample(
    request: LeafRequest,
    places: readonly number[] | LeafRequest,
    enough: number,
    visit: (request: LeafRequest, keyBytes: number) => void,
  ): Operation<void> {
    const requests = this.#sampled.pop() ?? [];
    if ('outgoing' in places) {
      yield* sampleNeighbourhood(this.client, requests, places, request, enough, visit);
    } else {
      yield* sampleLeaves(this.client, requests, request, places, enough, visit);
    }
    this.#sampled.push(requests);
  }

  *removeBeside(own: LeafRequest, met: LeafRequest, chooses: Chooses): Operation<boolean> {
    const requests = this.#sampled.pop() ?? [];
    if (requests.length === 0) requests.push(this.newRequest());
    const [request] = requests;
    request.adoptKeyAt(own.outgoing, RECORD_HEADER_BYTES, own.keyBytes, this.client.records.seed);
    const hasLeft = yield* removeItems(this.client, request, met, chooses);
    if (!hasLeft) yield* this.hasRemoved(request);
    this.#sampled.push(requests);
    return hasLeft;
  }

  /** Called after items were removed from the request's leaf; its image shows what is left. */
  *hasRemoved(_request: LeafRequest): Operation<void> {}

  search(request: LeafRequest): Operation<boolean> {
    return searchLeaf(this.client, request);
  }

  searchMany(
    requests: readonly LeafRequest[],
    count: number,
    batch: Batch,
    found: boolean[],
  ): Operation<void> {
    return searchLeaves(this.client, requests, count, batch, found);
  }

  /**
   * The item word and the checksum: a removal clears only the item word. The checksum is seeded
   * with the leaf's identity, so the words count whatever happens to the leaf, as in a search. It
   * does not cover the block of an indirect item, which may have been reused for the same key.
   */
  prove(request: LeafRequest, proof: Proof): boolean {
    const { words, entry, leaf } = request;
    const at = leaf + entry - IMAGE_AT;
    proof.begin(at + ITEM_AT, lowHalf(words, entry + ITEM_AT), highHalf(words, entry + ITEM_AT));
    const sum = entry + SUM_AT;
    proof.addMark(at + SUM_AT, lowHalf(words, sum), highHalf(words, sum), SUM_HIGH_MASK);
    if (!request.found.isInline) proof.addRecord(request);
    return true;
  }

  proveWritten(request: LeafRequest, proof: Proof): boolean {
    const { intent, entry, leaf, writtenAt } = request;
    if (writtenAt < 0) return false;
    const at = leaf + entry - IMAGE_AT;
    const [item, sum] = [writtenAt + ITEM_AT, writtenAt + SUM_AT];
    proof.begin(at + ITEM_AT, lowHalf(intent.memory, item), highHalf(intent.memory, item));
    const [low, high] = [lowHalf(intent.memory, sum), highHalf(intent.memory, sum)];
    proof.addMark(at + SUM_AT, low, high, SUM_HIGH_MASK);
    if (!request.inline) proof.addWritten(request);
    return true;
  }

  *write(request: LeafRequest, condition: Condition, expected = 0): Operation<Outcome> {
    request.change = WRITES;
    request.condition = condition;
    request.expected = expected;
    request.writtenAt = -1;
    yield* changeItem(this.client, request);
    return request.outcome;
  }

  *remove(request: LeafRequest, expected?: number): Operation<boolean> {
    request.change = REMOVES;
    request.expected = expected;
    yield* changeItem(this.client, request);
    return request.outcome === REPLACED;
  }

  *modify(request: LeafRequest, compute: (present: boolean) => void): Operation<Outcome> {
    request.change = MODIFIES;
    request.compute = compute;
    const isDone = yield* changeItem(this.client, request);
    return isDone ? request.outcome : yield* modifySlot(this.#protocol, request, compute);
  }
}
