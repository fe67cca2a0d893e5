import { invariant } from '../../errors.ts';
import type { Pool } from '../../pool/pool.ts';
import { type Address, Batch, type Operation, Scratch } from '../../verbs/index.ts';
import type {
  CheckSink,
  Counters,
  IndexKind,
  IndexManifest,
  IndexParameters,
  IndexShape,
} from '../contract.ts';
import type { IndexPicture } from '../picture.ts';
import { Directory } from '../substrates/directory.ts';
import { BOUNDS_AT } from '../substrates/leaf/layout.ts';
import { LeafIndex } from '../substrates/leaf/leaf-index.ts';
import { newLeaf } from '../substrates/leaf/split-leaf.ts';
import { writeBounds } from './bounds.ts';
import { checkTable } from './check.ts';
import { HopscotchGeometry, type HopscotchShape, hopscotchShape } from './geometry.ts';
import { HopscotchParts, paint, shapeOf } from './parts.ts';
import { HopscotchTable, SEGMENT_TAG } from './table.ts';

export const HOPSCOTCH_MANIFEST: IndexManifest = {
  name: 'hopscotch',
  ordered: false,
  orderedWalk: false,
  onlineResize: true,
  resizes: ['splits', 'hops'],
  evictsInTable: true,
  proves: true,
  locks: true,
  hotspots: true,
};

/** The stand-alone one-sided hopscotch hash table (CHIME section 4.5) behind the index contract. */
export class HopscotchIndex extends LeafIndex<HopscotchTable> {
  readonly manifest = HOPSCOTCH_MANIFEST;

  get table(): HopscotchTable {
    return this.client;
  }

  get counters(): Counters {
    const { retries, splits, hops, combined } = this.table;
    return { ...retries, splits, hops, combined };
  }

  shape(): Operation<IndexShape> {
    return shapeOf(this.table);
  }

  picture(partsMax: number): Operation<IndexPicture> {
    return paint(this.table, partsMax);
  }

  parts(cursor = 0): HopscotchParts {
    return new HopscotchParts(this.table, cursor);
  }

  check(sink: CheckSink): Operation<number> {
    return checkTable(this.table, sink);
  }
}

/** Makes a table of empty segments; returns where its directory stands, for the catalog. */
export function* buildHopscotch(
  pool: Pool,
  shape: HopscotchShape,
  catalog: number,
): Operation<Address> {
  // A store that no client could open for want of them must not be made.
  yield* pool.intents.open();
  const segments: Address[] = [];
  for (let suffix = 0; suffix < 2 ** shape.initialDepth; suffix++) {
    segments.push(yield* makeSegment(pool, shape, catalog, suffix));
  }
  return yield* Directory.build(pool, catalog, shape, segments);
}

function* makeSegment(
  { allocator }: Pool,
  shape: HopscotchShape,
  catalog: number,
  suffix: number,
): Operation<Address> {
  const geometry = new HopscotchGeometry(shape);
  const address = yield* allocator.allocate(catalog, geometry.leafUnits);
  const image = new Scratch(geometry.leafBytes);
  newLeaf(geometry, address, SEGMENT_TAG, image);
  writeBounds(image, BOUNDS_AT, suffix, shape.initialDepth, 0);
  yield new Batch().write(address, geometry.leafBytes, image, 0);
  return address;
}

export function* openHopscotch(
  pool: Pool,
  shape: HopscotchShape,
  catalog: number,
  root: Address,
): Operation<HopscotchIndex> {
  invariant(root > 0, 'a store without a root');
  yield* pool.intents.open();
  const directory = yield* Directory.open(root, shape, pool.chunks);
  const geometry = new HopscotchGeometry(shape);
  return new HopscotchIndex(new HopscotchTable(pool, geometry, directory, catalog));
}

/** The hopscotch hash table as a store's index. */
export const HOPSCOTCH: IndexKind = {
  manifest: HOPSCOTCH_MANIFEST,
  parameterNames: [
    'span',
    'neighbourhood',
    'inlineBytes',
    'initialDepth',
    'maxDepth',
    'seed',
    'accessWords',
  ],
  flags: ['accessWords'],
  parameters: (wishes, poolBytes, seed) => ({ ...hopscotchShape(wishes, poolBytes, seed) }),
  create: (pool, parameters, catalog) => buildHopscotch(pool, shapeFrom(parameters), catalog),
  open: (pool, parameters, catalog, root) =>
    openHopscotch(pool, shapeFrom(parameters), catalog, root),
};

export function shapeFrom(parameters: IndexParameters): HopscotchShape {
  const { span, neighbourhood, inlineBytes, initialDepth, maxDepth, seed, accessWords } =
    parameters;
  return { span, neighbourhood, inlineBytes, initialDepth, maxDepth, seed, accessWords };
}
