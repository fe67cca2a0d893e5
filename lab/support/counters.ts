import { type Index, resizesOf } from '../../src/indexes/contract.ts';

/** How many steps a client has done to grow the index: splits, merges, resizes, moves. */
export function growthsOf(index: Index): number {
  return Object.values(resizesOf(index)).reduce((sum, count) => sum + count, 0);
}

/** How often a client's operations started over or waited. */
export function retriesOf({ counters, manifest }: Index): number {
  let retries = 0;
  for (const [name, count] of Object.entries(counters)) {
    if (!manifest.resizes.includes(name)) retries += count;
  }
  return retries;
}
