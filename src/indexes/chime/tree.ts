import { invariant } from '../../errors.ts';
import type { Reclamation } from '../../pool/clients/reclamation.ts';
import type { Allocator } from '../../pool/memory/allocator.ts';
import { HEADER_BYTES } from '../../records/layout.ts';
import type { Address, Operation } from '../../verbs/index.ts';
import type { RecordIo } from '../substrates/record-io.ts';
import { NodeCache } from './cache.ts';
import { Cursors } from './cursors.ts';
import { confirm, descend, leaveGone, reach, refresh } from './descent.ts';
import type { ChimeGeometry, ChimeShape } from './geometry.ts';
import { KeyScale } from './key-scale.ts';
import { type ChimeRequest, LeafClient } from './leaf-client.ts';
import { halve } from './leaf-entries.ts';
import { Place } from './leaf-walk.ts';
import { ABSORB } from './link.ts';
import { makePlaceHere } from './make-place.ts';
import { mend } from './mend.ts';
import { type Link, swing, type Visit } from './node-io.ts';
import type { LeafHalves } from './rebuild-leaf.ts';
import { Removals } from './removals.ts';
import { settle } from './settle.ts';
import { Spares } from './spares.ts';
import { adoptLeaf, sureLeaf } from './sure-leaf.ts';

export * from './leaf-client.ts';

/** One client's handle of a CHIME tree. */
export class ChimeTree extends LeafClient<ChimeShape> {
  declare readonly geometry: ChimeGeometry;
  /** Where the root link stands. */
  readonly root: Address;
  readonly cache: NodeCache;
  readonly #scale = new KeyScale();
  readonly cursors = new Cursors();
  readonly removals = new Removals();
  /** Of this client: internal nodes rebuilt, pairs merged. */
  rebuilds = 0;
  merges = 0;

  constructor(
    geometry: ChimeGeometry,
    root: Address,
    records: RecordIo,
    allocator: Allocator,
    reclamation: Reclamation,
    catalog: number,
  ) {
    super(geometry, records, allocator, reclamation, catalog);
    this.root = root;
    this.cache = new NodeCache(reclamation, geometry.shape.cacheKiB * 1024);
  }

  readonly spareRequests = new Spares(() => this.newRequest());
  readonly sparePlaces: Spares<Place> = new Spares(() => new Place(this));

  begin(): void {
    this.cache.begin();
  }

  aim(request: ChimeRequest): boolean {
    return descend(this, request) !== undefined && request.leaf !== 0;
  }

  reach(request: ChimeRequest): Operation<void> {
    return reach(this, request);
  }

  isSure(request: ChimeRequest): boolean {
    return this.cache.isKnownLink(request);
  }

  confirm(request: ChimeRequest): void {
    confirm(this, request);
  }

  leaveGone(request: ChimeRequest, attempt: number): Operation<void> {
    return leaveGone(this, request, attempt);
  }

  *searchTakenUp(request: ChimeRequest): Operation<boolean> {
    adoptLeaf(this, request, yield* sureLeaf(this, request));
    const found = yield* settle(this, request);
    yield* refresh(this, request);
    return found;
  }

  mend(request: ChimeRequest): Operation<void> {
    return mend(this, request);
  }

  *makePlace(request: ChimeRequest): Operation<void> {
    if (!(yield* makePlaceHere(this, request))) yield* mend(this, request, true);
  }

  *halve({ borders }: Visit, slots: Int32Array): Operation<LeafHalves> {
    invariant(borders !== undefined, 'a leaf that is split without its borders');
    const { left, right, separator } = yield* halve(this, slots, borders);
    return { left, right, separator, flags: 0, flagsOver: ABSORB };
  }

  /**
   * From the borders that the way to the leaf has told: they are those of the leaf that its link
   * names, for as long as that is in use, and in any other the word that has this hint is not put,
   * for its slots are frozen.
   */
  hintOf({ above, child, outgoing, keyBytes }: ChimeRequest): number {
    if (above === undefined) return 0;
    this.cache.measure(above, child, this.#scale);
    return this.#scale.hintOf(outgoing.u8, HEADER_BYTES, HEADER_BYTES + keyBytes);
  }

  link(leaf: Visit, to: Link): Operation<boolean> {
    return swing(this, leaf, to, [leaf]);
  }
}
