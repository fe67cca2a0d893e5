import { MemorySource } from '../../src/fabrics/shared/memory-source.ts';
import { SharedFabric } from '../../src/fabrics/shared/shared-fabric.ts';
import type { Index } from '../../src/indexes/contract.ts';
import { createStore, kindNamed, openIndex } from '../../src/indexes/kinds.ts';
import { LocalPool } from '../../src/pool/local-pool.ts';
import { formatSuperblock } from '../../src/pool/superblock.ts';

export interface OwnIndex {
  pool: LocalPool;
  index: Index;
}

const REGION_BYTES = 2 ** 30;
/** Enough for a record and its share of the index, also while the index grows. */
const BYTES_A_RECORD = 200;
const SEED = 1;

/** The only client of an index in private memory, without a store: for its counters and methods. */
export function ownIndex(
  name: string,
  records: number,
  wishes: Readonly<Record<string, number>> = {},
): OwnIndex {
  const regions = 1 + Math.ceil((records * BYTES_A_RECORD) / REGION_BYTES);
  const parameters = {
    regionBytes: REGION_BYTES,
    regionsMax: regions,
    clientsMax: 2,
    createdAt: 0,
    poolId: 0,
  };
  const source = MemorySource.allocate(regions, REGION_BYTES);
  const fabric = new SharedFabric(source);
  fabric.region(0).u8.set(formatSuperblock(parameters));
  const pool = new LocalPool(fabric, parameters, source);
  pool.join('lab');
  const kind = kindNamed(name);
  const shape = kind.parameters(wishes, regions * REGION_BYTES, SEED);
  const entry = pool.run(createStore(pool, 'lab', kind, shape));
  return { pool, index: pool.run(openIndex(pool, entry)) };
}
