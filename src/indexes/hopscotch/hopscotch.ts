import { invariant } from '../../errors.ts';
import type { Pool } from '../../pool/pool.ts';
import { type Address, Batch, type Operation } from '../../verbs/index.ts';
import { unitsBeside } from '../chime/geometry.ts';
import { LeafIndex } from '../chime/leaf-index.ts';
import { depthFlags } from '../chime/link.ts';
import { type Link, NewNodes } from '../chime/node-io.ts';
import type {
  CheckSink,
  IndexKind,
  IndexManifest,
  IndexParameters,
  IndexShape,
} from '../contract.ts';
import { DirectoryParts } from '../substrates/directory-parts.ts';
import { checkTable } from './check.ts';
import { HopscotchGeometry, type HopscotchShape, hopscotchShape } from './geometry.ts';
import { eachReachable } from './reachable.ts';
import { shapeOf } from './shape.ts';
import { HopscotchTable } from './table.ts';
import { HopscotchWalk } from './walk.ts';

export const HOPSCOTCH_KIND = 6;

export const HOPSCOTCH_MANIFEST: IndexManifest = {
  name: 'hopscotch',
  ordered: false,
  orderedWalk: false,
  lockFreeReads: true,
  onlineResize: true,
};

/** Lines of the node over the two segments of a split. */
const FORK_UNITS = unitsBeside(1);

/** The stand-alone one-sided hopscotch hash table (CHIME section 4.5) behind the index contract. */
export class HopscotchIndex extends LeafIndex<HopscotchTable> {
  readonly manifest = HOPSCOTCH_MANIFEST;

  get table(): HopscotchTable {
    return this.client;
  }

  get resizes(): Readonly<Record<string, number>> {
    const { splits, hops } = this.table;
    return { splits, hops };
  }

  get tableUnits(): readonly number[] {
    return [this.table.geometry.leafUnits, FORK_UNITS];
  }

  shape(): Operation<IndexShape> {
    return shapeOf(this.table);
  }

  walk(cursor = 0): HopscotchWalk {
    return new HopscotchWalk(this.table, cursor);
  }

  check(sink: CheckSink): Operation<number> {
    return checkTable(this.table, sink);
  }

  eachReachable(visit: (address: Address) => void): Operation<void> {
    return eachReachable(this.table, visit);
  }
}

/** Makes a table of empty segments; returns where its directory stands, for the catalog. */
export function* buildHopscotch(
  pool: Pool,
  shape: HopscotchShape,
  catalog: number,
): Operation<Address> {
  const parts = yield* DirectoryParts.make(pool, catalog, shape);
  const table = new HopscotchTable(pool, new HopscotchGeometry(shape), parts, catalog);
  const links: Link[] = [];
  while (links.length < 2 ** shape.initialDepth) links.push(yield* makeSegment(table));
  yield* parts.fill(links);
  return parts.root;
}

function* makeSegment(table: HopscotchTable): Operation<Link> {
  const { span, initialDepth } = table.geometry.shape;
  const nodes = new NewNodes(table);
  const address = yield* nodes.allocateLeaf();
  const link = nodes.leafAt(address, new Int32Array(2 * span), depthFlags(initialDepth));
  yield nodes.post(new Batch());
  return link;
}

export function* openHopscotch(
  pool: Pool,
  shape: HopscotchShape,
  catalog: number,
  root: Address,
): Operation<HopscotchIndex> {
  invariant(root > 0, 'a store without a root');
  const { parts } = yield* DirectoryParts.read(root, shape);
  return new HopscotchIndex(new HopscotchTable(pool, new HopscotchGeometry(shape), parts, catalog));
}

/** The hopscotch hash table as a store's index. */
export const HOPSCOTCH: IndexKind = {
  number: HOPSCOTCH_KIND,
  manifest: HOPSCOTCH_MANIFEST,
  parameterNames: ['span', 'neighbourhood', 'initialDepth', 'maxDepth', 'hotspots', 'seed'],
  flags: [],
  parameters: (wishes, poolBytes, seed) => ({ ...hopscotchShape(wishes, poolBytes, seed) }),
  create: (pool, parameters, catalog) => buildHopscotch(pool, shapeFrom(parameters), catalog),
  open: (pool, parameters, catalog, root) =>
    openHopscotch(pool, shapeFrom(parameters), catalog, root),
};

export function shapeFrom(parameters: IndexParameters): HopscotchShape {
  const { span, neighbourhood, initialDepth, maxDepth, hotspots, seed } = parameters;
  return { span, neighbourhood, initialDepth, maxDepth, hotspots, seed };
}
