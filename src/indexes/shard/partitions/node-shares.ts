import { type Operation, UNIT_BYTES } from '../../../verbs/index.ts';
import type { NodeShare } from '../../contract.ts';
import type { Partitions } from './partitions.ts';

/** What of the tables is on which memory node; of one that is being migrated, what it goes to. */
export function* sharesOf(partitions: Partitions): Operation<NodeShare[]> {
  const { pool, tables } = partitions;
  const { nodes, roots } = yield* partitions.directory.read();
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
