import { type Operation, UNIT_BYTES } from '../../../verbs/index.ts';
import type { NodePlacement, NodeShare } from '../../contract.ts';
import { Migration } from './migration.ts';
import type { Partitions } from './partitions.ts';

/** Each partition's table is a part of the index. */
export function placementOf(partitions: Partitions): NodePlacement {
  return {
    shares: () => sharesOf(partitions),
    changeNodes: (change) => partitions.directory.changeNodes(change),
    rebalancing: () => partitions.tables.map((_, i) => new Migration(partitions, i)),
  };
}

/** What of the tables is on which memory node; of one that is being migrated, what it goes to. */
function* sharesOf({ pool, tables, directory }: Partitions): Operation<NodeShare[]> {
  const { nodes, roots } = yield* directory.read();
  const shares = Array.from({ length: pool.layout.stripe }, (_, node) => ({
    node,
    placed: nodes.includes(node),
    parts: 0,
    bytes: 0,
  }));
  for (const table of tables) {
    yield* table.reload(roots[table.partition]);
    shares[table.node].parts++;
    for (const { address, units } of table.segments.blocks()) {
      shares[pool.layout.nodeOf(address)].bytes += units * UNIT_BYTES;
    }
  }
  return shares;
}
