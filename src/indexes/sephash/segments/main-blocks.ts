import { hasCode } from '../../../errors.ts';
import type { Address, Operation } from '../../../verbs/index.ts';
import type { SepHashTable } from '../table.ts';

/** Where a MainSegment is written. */
export interface MainBlock {
  address: Address;
  /** Size class of its block. */
  units: number;
  /** Its block, when that is not where it is written: see compact.ts; else 0. */
  home: Address;
}

/** How many entries of each kind a MainSegment has. */
export interface EntryCounts {
  kept: number;
  dropped: number;
}

/**
 * A block for a MainSegment of so many entries. When there is none of its size class and the pool
 * is full, a deletion takes one of a larger class. A deletion needs a merge now and then, and makes
 * room again. Insertions leave those blocks to it.
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

/** Claims a block for such a MainSegment, for the merge that follows. Raises SW_POOL_FULL. */
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
