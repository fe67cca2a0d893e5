import { hasCode } from '../../../errors.ts';
import type { Address, Operation } from '../../../verbs/index.ts';
import type { SepHashTable } from '../table.ts';

/** Where a MainSegment is written. */
export interface MainBlock {
  address: Address;
  /** Size class of its block. */
  units: number;
  /** The segment's own block, if this is the spare place (compact.ts); else 0. */
  home: Address;
}

/** How many entries of each kind a MainSegment has. */
export interface EntryCounts {
  kept: number;
  dropped: number;
}

/**
 * A block for a MainSegment of so many entries. In a full pool a deletion may take a block of a
 * larger class: deletions need a merge now and then, and make room again. Insertions leave such
 * blocks to deletions.
 */
export function* allocateMain(
  { allocator, catalog, geometry }: SepHashTable,
  { kept, dropped }: EntryCounts,
  forDeletion: boolean,
): Operation<MainBlock> {
  for (let units = geometry.mainUnits(kept, dropped); ; ) {
    try {
      return { address: yield* allocator.allocate(catalog, units), units, home: 0 };
    } catch (error) {
      const larger = geometry.tableUnits.filter((size) => size > units);
      if (!isPoolFull(error) || !forDeletion || larger.length === 0) throw error;
      units = Math.min(...larger);
    }
  }
}

/**
 * Makes sure that the merge that follows finds a block: allocates one and keeps it in this client's
 * cache. Raises SW_POOL_FULL.
 */
export function* claimMain(
  table: SepHashTable,
  counts: EntryCounts,
  forDeletion: boolean,
): Operation<void> {
  const { address, units } = yield* allocateMain(table, counts, forDeletion);
  table.allocator.discard(table.catalog, units, address);
}

export function isPoolFull(error: unknown): boolean {
  return hasCode(error, 'SW_POOL_FULL');
}
