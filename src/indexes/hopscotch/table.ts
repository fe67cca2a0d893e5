import { StepwellError } from '../../errors.ts';
import type { Pool } from '../../pool/pool.ts';
import type { Operation } from '../../verbs/index.ts';
import { homeAt, isVacantAt, placeAt, type Slots } from '../chime/hopscotch.ts';
import { type ChimeRequest, LeafClient } from '../chime/leaf-client.ts';
import { depthFlags, depthOfLink } from '../chime/link.ts';
import type { Link, Visit } from '../chime/node-io.ts';
import type { LeafHalves } from '../chime/rebuild-leaf.ts';
import { lengthOf, recordOf } from '../chime/slot.ts';
import type { DirectoryParts } from '../substrates/directory-parts.ts';
import { KeyHashes } from '../substrates/key-hashes.ts';
import { RecordIo } from '../substrates/record-io.ts';
import { LinkDirectory } from './directory.ts';
import type { HopscotchGeometry, HopscotchShape } from './geometry.ts';
import { linkReplacement, mend } from './mend.ts';
import { aim, leaveGone, reach } from './way.ts';

const NO_KEY = new Uint8Array(0);

/** One client's handle of a hopscotch hash table. */
export class HopscotchTable extends LeafClient<HopscotchShape> {
  readonly directory: LinkDirectory;

  constructor(pool: Pool, geometry: HopscotchGeometry, parts: DirectoryParts, catalog: number) {
    const { allocator, reclamation, chunks } = pool;
    const records = new RecordIo(allocator, reclamation, catalog);
    super(geometry, records, allocator, reclamation, catalog);
    this.directory = new LinkDirectory(parts, geometry.shape, chunks, reclamation);
  }

  begin(): void {
    this.directory.begin();
  }

  aim(request: ChimeRequest): boolean {
    return aim(this, request);
  }

  reach(request: ChimeRequest): Operation<void> {
    return reach(this, request);
  }

  isSure({ child }: ChimeRequest): boolean {
    return this.directory.isKnown(child);
  }

  confirm({ child, leafLow, leafHigh }: ChimeRequest): void {
    this.directory.confirm(child, leafLow, leafHigh);
  }

  leaveGone(request: ChimeRequest, attempt: number): Operation<void> {
    return leaveGone(this, request, attempt);
  }

  /** Nothing takes up segments: the block holds something else that looks like one taken up. */
  *searchTakenUp(request: ChimeRequest, attempt: number): Operation<undefined> {
    yield* leaveGone(this, request, attempt);
  }

  mend(request: ChimeRequest): Operation<void> {
    return mend(this, request);
  }

  makePlace(request: ChimeRequest): Operation<void> {
    return mend(this, request, true);
  }

  /** By the next bit of the keys' hashes, which their records tell. */
  *halve({ high }: Visit, slots: Int32Array): Operation<LeafHalves> {
    const depth = depthOfLink(high);
    if (depth >= this.geometry.shape.maxDepth) {
      const why = `a segment of the ${2 ** depth} that the table can have is full`;
      throw new StepwellError('SW_INDEX_FULL', why);
    }
    const keys = new KeyHashes();
    const occupied: number[] = [];
    for (let slot = 0; slot < slots.length / 2; slot++) {
      if (!isVacantAt(slots, slot)) occupied.push(slot);
    }
    keys.clear();
    keys.ensure(occupied.length);
    for (const slot of occupied) {
      const [low, end] = slots.subarray(2 * slot, 2 * slot + 2);
      keys.add(recordOf(low, end), lengthOf(end));
    }
    const lower: number[] = [];
    const upper: number[] = [];
    yield* keys.read(this.geometry.shape.seed, (i, { h1 }) => {
      ((h1 & (1 << depth)) === 0 ? lower : upper).push(occupied[i]);
    });
    const [left, right] = [lower, upper].map((some) => this.#arranged(slots, some));
    return { left, right, separator: NO_KEY, flags: depthFlags(depth + 1), flagsOver: 0 };
  }

  /** Some entries near their homes; where that does not fit, where they were. */
  #arranged(slots: Slots, some: readonly number[]): Slots {
    const { neighbourhood } = this.geometry.shape;
    const fresh = new Int32Array(slots.length);
    const fits = some.every((slot) => {
      const [low, high] = [slots[2 * slot], slots[2 * slot + 1]];
      return placeAt(fresh, low, high, homeAt(slots, slot), neighbourhood);
    });
    if (fits) return fresh;
    fresh.fill(0);
    for (const slot of some) fresh.set(slots.subarray(2 * slot, 2 * slot + 2), 2 * slot);
    return fresh;
  }

  /** Nobody scans a hash table in the order of its keys. */
  hintOf(): number {
    return 0;
  }

  link(leaf: Visit, to: Link): Operation<boolean> {
    return linkReplacement(this, leaf, to);
  }
}
