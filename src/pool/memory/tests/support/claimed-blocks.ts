import type { LocalPool } from '../../../local-pool.ts';
import { BLOCK_FREE } from '../../block-state.ts';

/** The blocks of a store that are not free. */
export function claimedBlocks(pool: LocalPool, catalog: number): Set<number> {
  const claimed = new Set<number>();
  pool.run(
    pool.allocator.eachMap(catalog, (sizeClass, chunk, map) => {
      const start = pool.layout.chunkStart(chunk);
      for (let i = 0; i < sizeClass.blocks; i++) {
        if (map[i] !== BLOCK_FREE) claimed.add(sizeClass.blockAt(start, i));
      }
    }),
  );
  return claimed;
}
