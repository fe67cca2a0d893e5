import type { Pool } from '../../pool/pool.ts';
import { type Address, type Operation, UNIT_BYTES } from '../../verbs/index.ts';
import { PairGeometry, rootBytes } from './protocol/geometry.ts';
import { PairAccess } from './protocol/pair-access.ts';
import type { HStoreShape } from './protocol/parameters.ts';
import { TableImage } from './recovery/table-image.ts';

/** Allocates an empty index: all is zero but the tables. */
export function* buildHStore(pool: Pool, shape: HStoreShape, catalog: number): Operation<Address> {
  const { clientsMax } = pool.layout.parameters;
  const units = Math.ceil(rootBytes(shape, clientsMax) / UNIT_BYTES);
  const root = yield* pool.allocator.spans.allocate(catalog, units);
  for (let number = 0; number < shape.pairs; number++) {
    const geometry = new PairGeometry(shape, root, number, clientsMax);
    const table = new TableImage(new PairAccess(geometry, catalog, pool));
    yield* table.allocate();
    yield* table.write();
    yield* table.publish(0);
  }
  return root;
}
