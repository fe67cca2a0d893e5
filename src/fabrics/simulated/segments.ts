import { type Batch, PAUSE, WRITE } from '../../verbs/index.ts';
import type { SimulatedMemory } from './memory.ts';

const NOWHERE = -1;
const SEVERAL = -2;

/**
 * Where the verbs end that can be sent together from row `first` on. A pause ends them, and with
 * `ordered` also a verb that the contract orders behind one on another memory node: no queue pair
 * orders the two, so the client must wait for the first.
 */
export function segmentEnd(
  batch: Batch,
  first: number,
  memory: SimulatedMemory,
  ordered: boolean,
): number {
  let writes = NOWHERE;
  let others = NOWHERE;
  for (let row = first; row < batch.length; row++) {
    const kind = batch.kind[row];
    if (kind === PAUSE) return row;
    if (!ordered || memory.nodes === 1) continue;
    const node = memory.nodeOf(batch.address[row]);
    if (elsewhere(writes, node) || (kind !== WRITE && elsewhere(others, node))) return row;
    if (kind === WRITE) writes = joined(writes, node);
    else others = joined(others, node);
  }
  return batch.length;
}

function elsewhere(nodes: number, node: number): boolean {
  return nodes !== NOWHERE && nodes !== node;
}

function joined(nodes: number, node: number): number {
  return nodes === NOWHERE || nodes === node ? node : SEVERAL;
}
